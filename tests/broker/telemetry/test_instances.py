"""When a client may ask and push, and when it is forgotten; the order of errors is that of recorded cases."""

from __future__ import annotations

from broker.telemetry import instances as module
from broker.telemetry.instances import Instance, Instances
from broker.telemetry.subscriptions import ClientFacts, Subscriptions, subscription
from protocol.errors import ErrorCode

FACTS = ClientFacts("id", "app", "java", "4.3.0", "10.0.0.7", "1")
INTERVAL_MS = 1_000
MAX_BYTES = 100


class Clock:
    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.subscribe("a.")
        self.instances = Instances(self.subscriptions)
        self.now_ms = 1_000_000

    def subscribe(self, metrics: str) -> None:
        self.subscriptions.replace({"s": subscription("s", {"metrics": metrics, "interval.ms": str(INTERVAL_MS)})})

    def heard(self, number: int = 1, connection: str = "c") -> Instance:
        return self.instances.heard(bytes([number]) * 16, FACTS, connection, self.now_ms)

    def ask(self) -> str:
        return self.heard().take_ask(self.now_ms).name

    def push(self, *, id_of: str = "", codec: int = 0, size_bytes: int = 1, is_last: bool = False) -> str:
        instance = self.heard()
        subscription_id = instance.asked.subscription_id + bool(id_of)
        error = instance.take_push(subscription_id, codec, size_bytes, MAX_BYTES, is_last=is_last, now_ms=self.now_ms)
        return ErrorCode(error).name


def test_a_client_pushes_once_in_an_interval_and_once_after_it_has_asked() -> None:
    clock = Clock()
    assert (clock.ask(), clock.ask()) == ("NONE", "THROTTLING_QUOTA_EXCEEDED")
    clock.now_ms += 1
    assert (clock.push(), clock.push()) == ("NONE", "THROTTLING_QUOTA_EXCEEDED")
    clock.now_ms += INTERVAL_MS - 1
    assert (clock.push(), clock.ask()) == ("THROTTLING_QUOTA_EXCEEDED", "THROTTLING_QUOTA_EXCEEDED")
    clock.now_ms += 1
    assert clock.push() == "NONE"
    assert (clock.push(is_last=True), clock.push(is_last=True)) == ("NONE", "INVALID_REQUEST")


def test_what_is_wrong_with_a_push() -> None:
    for wrong, error in (
        ({"id_of": "others", "codec": 9}, "UNKNOWN_SUBSCRIPTION_ID"),
        ({"codec": 9, "size_bytes": MAX_BYTES + 1}, "UNSUPPORTED_COMPRESSION_TYPE"),
        ({"codec": 4, "size_bytes": MAX_BYTES + 1}, "TELEMETRY_TOO_LARGE"),
        ({"codec": 4, "size_bytes": MAX_BYTES}, "NONE"),
    ):
        clock = Clock()
        assert clock.push(**wrong) == error  # type: ignore[arg-type]
        may_ask_at_once = error in ("UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE")
        assert clock.ask() == ("NONE" if may_ask_at_once else "THROTTLING_QUOTA_EXCEEDED")


def test_a_client_begins_anew_when_subscriptions_have_changed() -> None:
    clock = Clock()
    first = clock.heard()
    assert clock.ask() == "NONE"
    clock.subscribe("b.")
    assert clock.ask() == "NONE"
    assert clock.heard().asked.subscription_id != first.asked.subscription_id


def test_instances_are_forgotten_with_their_connections_and_when_they_are_silent() -> None:
    clock = Clock()
    clock.heard(1, "c1")
    clock.heard(2, "c2")
    clock.heard(3, "c2")  # only the last of a connection ends with it, as in Apache Kafka
    clock.instances.disconnected("c2")
    clock.instances.disconnected("never")
    assert (bytes([3]) * 16 in clock.instances, len(clock.instances)) == (False, 2)
    clock.now_ms += module.SILENCE_MIN_MS + 1
    clock.heard(4, "c4")
    assert len(clock.instances) == 1
    assert clock.instances.is_connected("c4") and not clock.instances.is_connected("c1")


def test_ever_new_ids_do_not_fill_the_memory() -> None:
    clock = Clock()
    for number in range(module.INSTANCES_MAX + 50):
        clock.instances.heard(number.to_bytes(16), FACTS, "hostile", clock.now_ms)
    assert len(clock.instances) == module.INSTANCES_MAX
    assert (0).to_bytes(16) not in clock.instances
