"""Spark's own Kafka connector writes and reads with a delegation token: an executor needs no password of the user."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.differential.wire import Wire
from tests.interop.security.test_delegation_tokens import SETTINGS
from tests.interop.security.token_broker import SCRAM_MODULE, secured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


def token_of_alice(bootstrap: str) -> Any:
    host, _, port = bootstrap.partition(":")
    wire = Wire(host, int(port))
    try:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert wire.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2).error_code == 0
        request = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
        )
        return wire.ask(request, 3)
    finally:
        wire.close()


def test_a_table_is_written_and_read_with_a_token(spark: SparkSession) -> None:
    broker, bootstrap = secured("barnabas", SETTINGS)
    with broker:
        token = token_of_alice(bootstrap)
        login = f'username="{token.token_id}" password="{base64.b64encode(token.hmac).decode()}" tokenauth="true"'
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f"{SCRAM_MODULE} required {login};",
        }
        rows = spark.range(200).selectExpr("cast(id as string) as key", "concat('v', id) as value")
        rows.write.format("kafka").options(**options).option("topic", "orders").save()
        table = spark.read.format("kafka").options(**options).option("subscribe", "orders").load()
        read = {bytes(row["value"]).decode() for row in table.select("value").collect()}
        assert read == {f"v{number}" for number in range(200)}
        assert "ANONYMOUS" not in broker.log.read_text()
