"""Since when problems hold, from the pages /health of brokers."""

from __future__ import annotations

import socket

from broker.observability import conditions
from tools.health.since import began, read_pages
from tools.health.view import Condition, Since


def page(broker: int, since_ms: int, *, seen_first: bool = False) -> object:
    row = {"condition": Condition.NO_LEADER, "name": "orders-0", "since_ms": since_ms, "seen_first": seen_first}
    return {"broker": broker, "conditions": [row]}


def test_conditions_have_the_names_that_brokers_tell() -> None:
    assert {name: value for name, value in vars(Condition).items() if name.isupper()} == {
        name: getattr(conditions, name)
        for name in ("NO_LEADER", "REPLICAS_BEHIND", "BROKER_GONE", "DIRECTORY_OFFLINE", "DISK_FULL")
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
        assert read_pages([f"127.0.0.1:{nobody.getsockname()[1]}"]) == []
    assert read_pages([]) == []
