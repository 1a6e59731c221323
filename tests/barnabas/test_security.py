"""Secured brokers for tests: each protocol, by its own clients, and who is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from barnabas import EmbeddedBroker
from barnabas.security import PROTOCOLS, GeneratedSecurity

PATIENCE_S = 30


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_secured_broker_serves_its_users_and_nobody_else(protocol: str) -> None:
    with EmbeddedBroker(["orders"], security=protocol, users=["alice"]) as broker:
        for user in ("admin", "alice"):
            assert "orders" in AdminClient(broker.client_settings(user)).list_topics(timeout=PATIENCE_S).topics
        stranger = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        with pytest.raises(KafkaException):
            AdminClient(stranger).list_topics(timeout=2)
        for secret in broker.security.passwords.values():
            assert secret not in broker.log


def test_without_an_authorizer_every_user_may_do_everything() -> None:
    with EmbeddedBroker(security="sasl_ssl", users=["alice"]) as broker:
        producer = Producer(broker.client_settings("alice"))
        producer.produce("orders", b"one")
        assert producer.flush(PATIENCE_S) == 0


def test_an_unknown_protocol_is_refused_and_leaves_nothing() -> None:
    broker = EmbeddedBroker(security="tls")
    with pytest.raises(ValueError, match="must be one of ssl, sasl_plaintext, sasl_ssl"):
        broker.start()
    assert not broker._folder


def test_files_are_their_owners_only(tmp_path: Path) -> None:
    security = GeneratedSecurity("ssl", tmp_path, ["alice"])
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["admin.pem", "alice.pem", "authority.pem", "broker.pem"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    java = security.java_settings("alice")
    assert java["ssl.keystore.location"] == str(tmp_path / "alice.pem")
    assert java["security.protocol"] == "SSL"


def test_java_signs_in_with_a_login_line(tmp_path: Path) -> None:
    security = GeneratedSecurity("sasl_ssl", tmp_path)
    java = security.java_settings()
    assert java["sasl.jaas.config"].endswith(f'username="admin" password="{security.passwords["admin"]}";')
    assert java["ssl.truststore.location"] == str(tmp_path / "authority.pem")
    assert "ssl.truststore.location" not in GeneratedSecurity("sasl_plaintext", tmp_path).java_settings()
