"""`barnabas cluster health` on a broker of its own: what hangs, and what it may not see."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from runtime.clock import SystemClock
from tests.oracle.ports import lasting_port
from tests.tools.health.test_since import served
from tools.cluster_access import ClusterAccess
from tools.health import collection
from tools.health.requests import BrokerRequests
from tools.health.since import Address, read_pages
from tools.health.view_collection import collect_view

TIMEOUT_S = 60


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_bootstrap_server_that_hangs_keeps_nobody_waiting(silent: str, capfd: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker() as broker:
        assert main(["cluster", "health", "--bootstrap-server", f"{silent},{broker.bootstrap_servers}"]) == 0
    out, err = capfd.readouterr()
    assert ": healthy; 1 broker (0); controller 0; 0 partitions" in out
    assert err == ""


def test_of_the_servers_to_ask_first_one_may_hang(silent: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Also for the client of balance and partitions, which begins with any of them."""
    with EmbeddedBroker() as broker:
        for command in (["cluster", "health"], ["partitions", "reassignments"]):
            assert main([*command, "--bootstrap-server", f"{silent},{broker.bootstrap_servers}"]) == 0, (
                capfd.readouterr()
            )


def test_nobody_at_the_address_is_told(silent: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "health", "--bootstrap-server", silent]) == 1
    assert f"no broker answers at {silent}" in capfd.readouterr().err


def test_a_lag_that_shrinks_is_no_problem_and_since_when_is_read_from_the_record(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers})
        for number in range(3):
            producer.produce("orders", b"value", timestamp=1_700_000_000_000 + number)
        assert producer.flush(TIMEOUT_S) == 0
        settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": servers, **settings})
        try:
            consumer.subscribe(["orders"])
            messages = consumer.consume(1, TIMEOUT_S)
            consumer.commit(message=messages[0], asynchronous=False)
            health = ["cluster", "health", "--bootstrap-server", servers, "--json", "--window-ms"]
            assert main([*health, "0"]) == 1
            [problem] = json.loads(capfd.readouterr().out)["problems"]
            assert (problem["check"], problem["severity"]) == ("stuck group", "error")
            assert problem["since"] == "2023-11-14T22:13:20.001Z", "the second record is the first that is not read"
            consumer.commit(message=consumer.consume(1, TIMEOUT_S)[0], asynchronous=False)
            consumer.commit(message=consumer.consume(1, TIMEOUT_S)[0], asynchronous=False)
            assert main([*health, "0"]) == 0
            assert json.loads(capfd.readouterr().out)["problems"] == []
        finally:
            consumer.close()


def test_pages_are_where_brokers_say_and_those_of_others_are_not_believed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[Address]] = []
    monkeypatch.setattr(
        collection, "read_pages", lambda addresses: asked.append(list(addresses)) or read_pages(addresses)
    )
    port = lasting_port()
    foreign = {"broker": 0, "cluster_id": "another", "conditions": []}
    host, number = served(json.dumps(foreign).encode())
    with EmbeddedBroker(settings={"barnabas.http.port": port}) as broker:
        command = ["cluster", "health", "--bootstrap-server", broker.bootstrap_servers]
        assert main(command) == 0
        assert asked[-1] == [("localhost", port)]
        assert "not seen" not in capfd.readouterr().out
        assert main([*command, "--http", f"{host}:{number}"]) == 0
        assert f"not seen: since when: {host}:{number} has no page /health of this cluster" in capfd.readouterr().out


def test_what_a_user_may_not_see_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}
    with EmbeddedBroker(settings=settings) as broker:
        assert main(["cluster", "health", "--bootstrap-server", broker.bootstrap_servers]) == 0
    out = capfd.readouterr().out
    assert ": healthy as far as it was seen;" in out
    assert "not seen: log directories of broker 0: CLUSTER_AUTHORIZATION_FAILED" in out


def test_the_validity_of_a_brokers_certificate_is_seen() -> None:
    with EmbeddedBroker(security="sasl_ssl", users=["alice"]) as broker:
        access = ClusterAccess.of(broker.security.java_settings("alice"), broker.bootstrap_servers)
        requests = BrokerRequests(access.client, SystemClock())
        try:
            found = collect_view(requests, SystemClock(), 0).brokers[0].certificate
        finally:
            requests.close()
        assert found is not None
        assert found.from_ms < SystemClock().wall_ms() < found.until_ms


def test_a_secured_cluster_is_seen_by_its_users_and_refuses_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedBroker(security="sasl_ssl", users=["alice"]) as broker:
        settings = broker.security.java_settings("alice")
        command = ["cluster", "health", "--bootstrap-server", broker.bootstrap_servers, "--command-config"]
        for name, changed in (("right", ""), ("wrong", "not ")):
            jaas = settings["sasl.jaas.config"].replace('password="', f'password="{changed}')
            lines = settings | {"sasl.jaas.config": jaas}
            (tmp_path / name).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        assert main([*command, str(tmp_path / "right")]) == 0
        assert ": healthy;" in capfd.readouterr().out
        assert main([*command, str(tmp_path / "wrong")]) == 1
        refused = capfd.readouterr().err
        assert f"{broker.bootstrap_servers} refuses the login: " in refused
        assert "Authentication failed" in refused
        assert broker.security.passwords["alice"] not in refused
