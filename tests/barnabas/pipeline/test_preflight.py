"""The check before Spark starts, against a broker process, and against listeners that are none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import preflight


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker({"orders": 3, "payments": 1}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def dead() -> Iterator[str]:
    """An address that nobody listens on, and nobody else is given."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_topics_that_are_there_pass(servers: str, dead: str) -> None:
    preflight.check_cluster(f"{dead},{servers}", {}, ["orders", "payments"])
    assert preflight.ask_first(servers, {}, ["orders"]) == {"orders": 0}


def test_what_is_missing_is_named_and_not_created(servers: str) -> None:
    for _ in range(2):
        with pytest.raises(preflight.NotReady, match=f"topic nowhere does not exist \\(brokers {servers}\\)"):
            preflight.check_cluster(servers, {}, ["orders", "nowhere"])


def test_a_missing_target_is_created_where_brokers_create_topics(servers: str) -> None:
    preflight.check_cluster(servers, {}, ["made"], creates=True)
    while preflight.ask_first(servers, {}, ["made"]) == {"made": 3}:
        pass  # brokers create it after they have answered
    strict = EmbeddedBroker(settings={"auto.create.topics.enable": False})
    with strict, pytest.raises(preflight.NotReady, match="topic made does not exist"):
        preflight.check_cluster(strict.bootstrap_servers, {}, ["made"], creates=True)


def test_a_dead_broker_is_named(dead: str) -> None:
    with pytest.raises(preflight.NotReady, match=f"no broker answers: {dead}: Connection refused"):
        preflight.check_cluster(dead, {}, ["orders"])


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\6\0\0\0\1\0\0"])
def test_a_listener_that_is_no_broker_is_named(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(preflight.NotReady, match=f"no broker answers: {address}: "):
            preflight.check_cluster(address, {}, ["orders"])
        thread.join()


def test_where_clients_authenticate_only_the_connection_is_checked(servers: str, dead: str) -> None:
    sasl = {"kafka.security.protocol": "SASL_PLAINTEXT"}
    assert preflight.ask_first(servers, sasl, ["nowhere"]) is None
    with pytest.raises(preflight.NotReady, match="Connection refused"):
        preflight.ask_first(dead, sasl, ["nowhere"])
