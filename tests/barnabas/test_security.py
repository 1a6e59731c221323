"""Secured brokers for tests: each protocol, by its own clients, and who is refused."""

from __future__ import annotations

import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from barnabas import EmbeddedBroker
from barnabas.embedded import AUTHORIZER
from barnabas.launch import command
from barnabas.properties import write_properties
from barnabas.security import PROTOCOLS, GeneratedSecurity, UnknownUserError, main
from config.sources import read_properties
from tests.oracle.ports import lasting_port

PATIENCE_S = 60


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


@pytest.mark.parametrize("acls", [{"acls": True}, {"settings": {"authorizer.class.name": AUTHORIZER}}])
def test_with_an_authorizer_users_see_what_they_may(acls: dict[str, Any]) -> None:
    with EmbeddedBroker(["orders"], security="ssl", users=["alice"], **acls) as broker:
        assert topics_of(broker, "admin") == {"orders"}
        assert topics_of(broker, "alice") == set()


def test_without_an_authorizer_every_user_may_do_everything() -> None:
    with EmbeddedBroker(security="sasl_ssl", users=["alice"]) as broker:
        producer = Producer(broker.client_settings("alice"))
        producer.produce("orders", b"one")
        assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("wanted", "protocol"),
    [
        ({"tls": True}, "ssl"),
        ({"users": ["alice"]}, "sasl_plaintext"),
        ({"tls": True, "users": {"alice": 'a "word" with \\ and ;'}}, "sasl_ssl"),
        ({"acls": True, "tls": True}, "sasl_ssl"),
    ],
)
def test_each_argument_is_enough(wanted: dict[str, Any], protocol: str) -> None:
    with EmbeddedBroker(["orders"], **wanted) as broker:
        assert broker.security.protocol == protocol
        for user in broker.security.users:
            assert "orders" in AdminClient(broker.client_settings(user)).list_topics(timeout=PATIENCE_S).topics
        if isinstance(wanted.get("users"), dict):
            assert broker.security.passwords.items() >= wanted["users"].items()


def test_acls_say_what_their_users_may_do() -> None:
    acls: list[str | tuple[str, ...]] = [
        "writer write topic orders-*", ("reader", "read", "topic", "orders-1"), "* read group *", "deny reader read group g2",
    ]  # fmt: skip
    with EmbeddedBroker(["orders-1", "bills"], acls=acls) as broker:
        assert broker.security.users == ["admin", "writer", "reader"]
        assert topics_of(broker, "admin") == {"orders-1", "bills"}
        for user in ("writer", "reader"):
            assert topics_of(broker, user) == {"orders-1"}
        denied = {**broker.client_settings("reader"), "group.id": "g2", "log_level": 0}
        consumer = Consumer(denied)
        consumer.subscribe(["orders-1"])
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        error = record.error()
        assert error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        consumer.close()


def topics_of(broker: EmbeddedBroker, user: str) -> set[str]:
    return set(AdminClient(broker.client_settings(user)).list_topics(timeout=PATIENCE_S).topics)


@pytest.mark.parametrize("wanted", [{"tls": True}, {"users": ["alice"]}, {"tls": True, "users": ["alice"]}, {}])
def test_clients_of_other_libraries_have_settings_too(wanted: dict[str, Any], tmp_path: Path) -> None:
    with EmbeddedBroker(["orders"], **wanted) as broker:
        consumer = KafkaConsumer(**broker.python_client_settings(), request_timeout_ms=PATIENCE_S * 1000)
        assert consumer.topics() == {"orders"}
        consumer.close()
        write_properties(tmp_path / "admin.properties", broker.java_client_settings())
        options = [
            "--bootstrap-server",
            broker.bootstrap_servers,
            "--command-config",
            str(tmp_path / "admin.properties"),
        ]
        listed = subprocess.run(
            command("topics", "list", *options), capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert listed.stdout.split() == ["orders"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"security": "tls"}, "security 'tls' must be one of ssl, sasl_plaintext, sasl_ssl"),
        ({"security": "ssl", "tls": True}, "security says the protocol: tls cannot be given as well"),
        ({"users": ["alice;"]}, "user 'alice;': a name has no spaces, and none of"),
        ({"users": {"alice": ""}}, "the password of alice must be one printable line"),
        ({"brokers": 0}, "brokers=0: at least 1"),
    ],
)
def test_what_does_not_go_together_is_refused(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EmbeddedBroker(**wanted)


def test_an_acl_that_is_none_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match=r"there is no operation 'red': did you mean read\?"):
        EmbeddedBroker(acls=["alice red topic orders"]).start()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_user_is_named_with_those_that_there_are(protocol: str, tmp_path: Path) -> None:
    security = GeneratedSecurity(protocol, tmp_path, ["alice"])
    for ask in (security.client_settings, security.java_settings):
        with pytest.raises(UnknownUserError, match="there is no user 'bob'; there are admin, alice"):
            ask("bob")


def test_a_broker_without_security_has_no_users() -> None:
    with EmbeddedBroker() as broker:
        assert broker.client_settings() == {"bootstrap.servers": broker.bootstrap_servers}
        with pytest.raises(UnknownUserError, match="there is no user 'alice': the broker was made without users"):
            broker.client_settings("alice")


def test_files_are_their_owners_only(tmp_path: Path) -> None:
    security = GeneratedSecurity("ssl", tmp_path, ["alice"])
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["admin.pem", "alice.pem", "authority.pem", "broker.pem", "made.json"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    java = security.java_settings("alice")
    assert java["ssl.keystore.location"] == str(tmp_path / "alice.pem")
    assert java["security.protocol"] == "SSL"


def test_what_was_made_is_kept_for_the_next_start(tmp_path: Path) -> None:
    first = GeneratedSecurity("sasl_ssl", tmp_path, ["alice"])
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    again = GeneratedSecurity("sasl_ssl", tmp_path, ["alice"])
    assert again.passwords == first.passwords
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == kept
    more = GeneratedSecurity("sasl_ssl", tmp_path, ["alice", "bob"])
    assert more.users == ["admin", "alice", "bob"]
    assert more.passwords["alice"] != first.passwords["alice"]


def test_properties_have_everything_in_line(tmp_path: Path) -> None:
    """As containers get them: a broker with a listener for brokers and one for clients, settings in the environment."""
    folder, ports = tmp_path / "security", (lasting_port(), lasting_port())
    arguments = ["--listener", "INSIDE", "--listener", "OUTSIDE", "--user", "alice"]
    assert main([str(folder), *arguments]) == 0
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("broker.properties", "alice.properties"):
        (folder / name).rename(moved / name)
    settings = read_properties((moved / "broker.properties").read_text())
    assert settings.pop("super.users") == "User:admin;User:broker", "which only an authorizer reads"
    settings["listeners"] = f"INSIDE://localhost:{ports[0]},OUTSIDE://localhost:{ports[1]}"
    with EmbeddedBroker(["orders"], settings):
        for port in ports:
            options = ["--bootstrap-server", f"localhost:{port}", "--command-config", str(moved / "alice.properties")]
            listed = subprocess.run(
                command("topics", "list", *options), capture_output=True, text=True, timeout=PATIENCE_S, check=True
            )
            assert listed.stdout.split() == ["orders"]


def test_java_signs_in_with_a_login_line(tmp_path: Path) -> None:
    security = GeneratedSecurity("sasl_ssl", tmp_path)
    java = security.java_settings()
    assert java["sasl.jaas.config"].endswith(f'username="admin" password="{security.passwords["admin"]}";')
    assert java["ssl.truststore.location"] == str(tmp_path / "authority.pem")
    assert "ssl.truststore.location" not in GeneratedSecurity("sasl_plaintext", tmp_path).java_settings()
