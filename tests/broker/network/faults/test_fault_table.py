"""A fault counts for so many requests of an API, and a name that there is not is refused with what may be meant."""

from __future__ import annotations

import pytest

from broker.handlers import ALL
from broker.network.faults.fault_table import FaultTable
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest


def used(table: FaultTable, key: int, *, is_follower: bool = False) -> ErrorCode | None:
    """Return the error of the next request, which counts."""
    fault = table.of(key, is_follower=is_follower)
    if fault is None:
        return None
    table.use(key, fault, is_follower=is_follower)
    return fault.error


def test_one_fault_follows_the_other() -> None:
    table, key = FaultTable(ALL), ProduceRequest.api_key
    table.inject({"api": "Produce", "error": "REQUEST_TIMED_OUT", "times": 2})
    table.inject({"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
    asked = [used(table, key) for _ in range(4)]
    assert asked == [ErrorCode.REQUEST_TIMED_OUT] * 2 + [ErrorCode.NOT_LEADER_OR_FOLLOWER, None]


@pytest.mark.parametrize("times", [0, None])
def test_some_last_until_they_are_cleared(times: int | None) -> None:
    table, key = FaultTable(ALL), ProduceRequest.api_key
    table.inject({"api": "Produce", "error": "REQUEST_TIMED_OUT", "times": times})
    assert [used(table, key) for _ in range(3)] == [ErrorCode.REQUEST_TIMED_OUT] * 3
    table.clear()
    assert used(table, key) is None


def test_fetches_of_followers_count_apart() -> None:
    table, key = FaultTable(ALL), FetchRequest.api_key
    table.inject({"api": "FetchFollower", "error": "KAFKA_STORAGE_ERROR"})
    assert used(table, key) is None
    assert used(table, key, is_follower=True) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("api", sorted({handler.api_name for handler in ALL} - {"SaslHandshake", "SaslAuthenticate"}))
def test_each_api_is_known(api: str) -> None:
    FaultTable(ALL).inject({"api": api, "delay_ms": 1})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"api": "Produc", "delay_ms": 1}, r"there is no API 'Produc': did you mean Produce\?"),
        ({"delay_ms": 1}, "there is no API None"),
        (
            {"api": "SaslAuthenticate", "delay_ms": 1},
            "there are no faults of SaslAuthenticate, which is part of the auth",
        ),
        (
            {"api": "Fetch", "error": "NOT_LEADER"},
            "there is no error 'NOT_LEADER': did you mean NOT_LEADER_OR_FOLLOWER",
        ),
        ({"api": "Fetch", "error": "NONE"}, "there is no error 'NONE'"),
        ({"api": "Fetch"}, "a fault needs an error, a delay_ms or disconnect"),
        ({"api": "Fetch", "error": "REQUEST_TIMED_OUT", "disconnect": True}, "an error or the end of the connection"),
        ({"api": "Fetch", "delay_ms": -1}, "delay_ms=-1: must be a number of at least 0"),
        ({"api": "Fetch", "delay_ms": 1, "times": "2"}, "times='2': must be a number of at least 0"),
        ({"api": "Fetch", "delay": 1}, "a fault has no delay"),
    ],
)
def test_what_it_does_not_understand_it_refuses(asked: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaultTable(ALL).inject(asked)
