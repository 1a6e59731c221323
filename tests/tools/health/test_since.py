"""Since when problems hold, from the pages /health of brokers."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from broker.observability import conditions
from client.settings.values import SettingsError
from tools.health.since import addresses_of, began, read_pages, told_addresses
from tools.health.view import BrokerView, Condition, Since


def page(broker: int, since_ms: int, *, seen_first: bool = False) -> dict[str, object]:
    row = {"condition": Condition.NO_LEADER, "name": "orders-0", "since_ms": since_ms, "seen_first": seen_first}
    return {"broker": broker, "cluster_id": "c-1", "conditions": [row]}


def test_conditions_have_the_names_that_brokers_tell() -> None:
    assert {name: value for name, value in vars(Condition).items() if name.isupper()} == {
        name: getattr(conditions, name)
        for name in (
            "NO_LEADER",
            "REPLICAS_BEHIND",
            "BROKER_GONE",
            "DIRECTORY_OFFLINE",
            "DISK_FULL",
            "SHARE_GAVE_UP",
            "SHARE_LOCKS_RAN_OUT",
        )
    }


def test_the_earliest_time_counts_with_who_tells_it() -> None:
    key = (Condition.NO_LEADER, "orders-0")
    assert began([page(1, 20), page(2, 10), page(3, 30)]) == {key: Since(10, "seen by broker 2")}
    [told] = began([page(1, 20, seen_first=True)]).values()
    assert "may have begun earlier" in told.note
    assert began([]) == {}


def test_addresses_that_do_not_answer_tell_nothing() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: refused
        assert read_pages([("127.0.0.1", nobody.getsockname()[1])]) == {}
    assert read_pages([]) == {}


def test_addresses_are_read_and_others_refused() -> None:
    assert addresses_of("") == []
    assert addresses_of("one:8080, [::1]:8081,") == [("one", 8080), ("::1", 8081)]
    for wrong in ("one", "one:", ":8080", "one:http"):
        with pytest.raises(SettingsError, match=f"{wrong} is not of the form HOST:PORT"):
            addresses_of(wrong)


def served(content: bytes) -> tuple[str, int]:
    """The address of somebody who answers one request with this JSON."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)

    threading.Thread(target=serve, daemon=True).start()
    return "127.0.0.1", server.getsockname()[1]


def test_pages_of_somebody_else_tell_nothing() -> None:
    rows = page(1, 10)
    address = served(json.dumps(rows).encode())
    assert read_pages([address]) == {address: rows}
    for changed in ({"conditions": [{}]}, {"conditions": 3}, {"broker": "1"}, {"cluster_id": None}):
        assert read_pages([served(json.dumps(rows | changed).encode())]) == {}
    for other in (b"[]", b"{}", b"no JSON"):
        assert read_pages([served(other)]) == {}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"barnabas.http.port": "8080", "barnabas.http.host": "localhost"}, [("localhost", 8080)]),
        ({"barnabas.http.port": "8080", "barnabas.http.host": "0.0.0.0"}, [("broker-1", 8080)]),
        ({"barnabas.http.port": "8080", "barnabas.http.host": ""}, [("broker-1", 8080)]),
        ({"barnabas.http.port": "0", "barnabas.http.host": "localhost"}, []),  # nobody knows which one it is
        ({"barnabas.http.port": ""}, []),
        ({}, []),  # Apache Kafka
    ],
)
def test_brokers_name_the_addresses_of_their_pages(settings: dict[str, str], found: list[tuple[str, int]]) -> None:
    assert told_addresses([BrokerView(1, "broker-1:9092", 1.0, settings=settings)]) == found
