"""Java clients of Apache Kafka 4 on secured listeners: transactional producers and consumers, over TLS, PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from barnabas.embedded import EmbeddedBroker
from tests.interop.clients.java_clients import JavaClients
from tests.interop.conftest import need_java
from tests.interop.security.test_sasl import MODULES, PACKAGE
from tests.interop.transactions.clients.clients import NEWER_JAVA

pytestmark = [pytest.mark.oracle, pytest.mark.interop]

VALUES = [f"value-{number}" for number in range(50)]
LISTENERS = [("ssl", None)] + [
    (protocol, mechanism) for protocol in ("sasl_plaintext", "sasl_ssl") for mechanism in MODULES
]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    need_java()
    with JavaClients(NEWER_JAVA, tmp_path_factory.mktemp("java") / "log") as clients:
        yield clients


def settings_of(broker: EmbeddedBroker, mechanism: str | None) -> dict[str, str]:
    """Those of the user alice, in the names of Java's clients."""
    settings = {"bootstrap.servers": broker.bootstrap_servers} | broker.security.java_settings("alice", in_line=True)
    if mechanism is None:
        return settings
    password = broker.security.passwords["alice"]
    if mechanism != "PLAIN":
        kind = ScramMechanism.SCRAM_SHA_256 if mechanism == "SCRAM-SHA-256" else ScramMechanism.SCRAM_SHA_512
        upsertion = UserScramCredentialUpsertion("alice", ScramCredentialInfo(kind, 4096), password.encode())
        admin = AdminClient(broker.client_settings())
        (future,) = admin.alter_user_scram_credentials([upsertion]).values()
        future.result(30)
    login = f'{PACKAGE}.{MODULES[mechanism]} required username="alice" password="{password}";'
    return settings | {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


@pytest.mark.parametrize(("protocol", "mechanism"), LISTENERS)
def test_a_transaction_is_written_and_read(java: JavaClients, protocol: str, mechanism: str | None) -> None:
    name = f"{protocol}-{mechanism}"
    with EmbeddedBroker(topics={"orders": 1}, security=protocol, users=["alice"]) as broker:
        settings = settings_of(broker, mechanism)
        java.ask(name, "producer", config=settings | {"transactional.id": name})
        java.ask(name, "init")
        for values, end in ((VALUES, "commit"), (["dropped"], "abort")):
            java.ask(name, "begin")
            java.ask(name, "send", topic="orders", partition=0, values=values)
            java.ask(name, end)
        java.ask(name, "close producer")
        committed = {"isolation.level": "read_committed", "enable.auto.commit": "false"}
        java.ask(name, "consumer", config=settings | committed)
        assert java.ask(name, "read", topic="orders") == [VALUES]
        java.ask(name, "close consumer")
