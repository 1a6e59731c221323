"""Which brokers are lost, and which are back; and quotas."""

from __future__ import annotations

from types import SimpleNamespace

from confluent_kafka import KafkaError

from client.reach import Access
from tests.doubles.clock import ManualClock
from tools.waiting.connections import Connections
from tools.waiting.throttling import LASTS_MS, Throttling
from tools.waiting.watch import Cause

LOST = KafkaError(KafkaError._TRANSPORT)


class Stage:
    def __init__(self) -> None:
        self.down: set[str] = set()
        self.hurried = 0
        self.tried = 0
        self.said: list[str] = []
        self.connections = Connections(
            lambda: Access("PLAINTEXT", None, None), lambda: {1: "a:1", 2: "b:1"}, self.hurry, self.said.append, self.reach
        )  # fmt: skip

    def hurry(self) -> None:
        self.hurried += 1

    def reach(self, servers: list[str], _access: Access) -> dict[str, str | None]:
        self.tried += 1
        return {server: f"{server} is down" if server in self.down else None for server in servers}

    def text(self) -> str | None:
        cause = self.connections.cause()
        assert cause is None or cause.is_lost
        return None if cause is None else cause.text


def test_brokers_are_tried_when_a_client_has_lost_one() -> None:
    stage = Stage()
    assert stage.text() is None
    assert stage.tried == 0, "no client has named an error"
    stage.connections.on_error(KafkaError(KafkaError.REQUEST_TIMED_OUT))
    assert stage.hurried == 0
    stage.connections.on_error(LOST)
    stage.connections.on_error(LOST)
    assert stage.hurried == 1
    assert stage.text() is None, "an idle connection was closed"
    assert stage.text() is None
    assert stage.tried == 1


def test_a_broker_is_lost_until_it_answers() -> None:
    stage = Stage()
    stage.down = {"a:1"}
    stage.connections.on_error(LOST)
    assert stage.text() == "connection lost, retrying: a:1 is down (broker 1)"
    assert not stage.connections.are_all_lost
    stage.down = {"a:1", "b:1"}
    assert stage.text() == "connection lost, retrying: a:1 is down; b:1 is down (broker 1, broker 2)"
    assert stage.connections.are_all_lost
    stage.down = {"b:1"}
    assert stage.text() == "connection lost, retrying: b:1 is down (broker 2)"
    stage.down = set()
    assert stage.text() is None
    assert stage.said == ["connected again: broker 1", "connected again: broker 2"]
    tried = stage.tried
    assert stage.text() is None
    assert stage.tried == tried


def test_a_quota_is_shown_while_it_delays() -> None:
    clock = ManualClock()
    throttling = Throttling(clock)
    throttling.on_throttle(SimpleNamespace(broker_id=1, throttle_time=0.0))
    assert throttling.cause() is None
    throttling.on_throttle(SimpleNamespace(broker_id=1, throttle_time=1.25))
    text = "broker 1 delays its answers by 1.2 s, because of a quota"
    clock.now_ms += 1250 + LASTS_MS - 1
    assert throttling.cause() == Cause(text, text)
    clock.now_ms += 1
    assert throttling.cause() is None
