"""A look at a cluster whose brokers are played: what is asked of whom, and what a broker that stops to answer costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from tests.doubles.clock import ManualClock
from tools.health.look import STALLED_FOR_MS, TOPICS_PER_REQUEST, look
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.view import TOPIC_SETTINGS, ClusterView, Validity


class Played:
    """Two brokers; broker 1 is the controller. `waits_for_store`: nobody tells settings of topics."""

    def __init__(self, clock: ManualClock, topics: int) -> None:
        self._clock = clock
        self._topics = [f"topic-{number:05d}" for number in range(topics)]
        self.waits_for_store = False
        self.silent: set[int] = set()
        self.asked_topics: list[tuple[int, list[str]]] = []

    def connect(self, request: Any, limit_ms: int) -> Any:
        del request, limit_ms
        return self._metadata()

    def has_api(self, api_key: int) -> bool:
        del api_key
        return False

    def probe(self, brokers: Sequence[int], limit_ms: int) -> dict[int, float | Unanswered]:
        del limit_ms
        return {broker: Unanswered("no answer in time") if broker in self.silent else 1.0 for broker in brokers}

    def certificates(self, brokers: Iterable[int]) -> dict[int, Validity]:
        return {broker: Validity(0, 1) for broker in brokers}

    def ask(self, asked: Mapping[int, Sequence[Any]], limit_ms: int) -> dict[int, list[Any]]:
        return {broker: [self._answer(broker, request, limit_ms)] for broker, [request] in asked.items()}

    def _answer(self, broker: int, request: Any, limit_ms: int) -> Any:
        match type(request).__name__:
            case "MetadataRequest":
                return self._metadata()
            case "DescribeConfigsRequest" if request.resources[0].resource_type == 2:
                names = [each.resource_name for each in request.resources]
                self.asked_topics.append((broker, names))
                if self.waits_for_store:
                    self._clock.now_ms += limit_ms
                    return Unanswered("no answer in time")
                setting = SimpleNamespace(name="min.insync.replicas", value="2")
                rows = [SimpleNamespace(resource_name=name, error_code=0, configs=[setting]) for name in names]
                return SimpleNamespace(results=rows)
            case "ListOffsetsRequest" | "ListPartitionReassignmentsRequest":
                return SimpleNamespace(error_code=0, topics=[])
            case _:
                return SimpleNamespace(error_code=0, groups=[], results=[])

    def _metadata(self) -> Any:
        row = SimpleNamespace(
            partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2], offline_replicas=[]
        )
        return SimpleNamespace(
            error_code=0, cluster_id="played", controller_id=1,
            brokers=[SimpleNamespace(node_id=number, host="host", port=9092, rack=None) for number in (1, 2)],
            topics=[SimpleNamespace(name=name, error_code=0, partitions=[row]) for name in self._topics],
        )  # fmt: skip


def seen(played: Played, clock: ManualClock, previous: ClusterView | None = None) -> ClusterView:
    return look(cast(BrokerRequests, played), clock, 0, previous)


def test_settings_of_topics_are_asked_for_in_parts_of_all_brokers_behind_one_that_tells_whether_they_come() -> None:
    clock = ManualClock()
    played = Played(clock, topics=2 * TOPICS_PER_REQUEST + 2)
    view = seen(played, clock)
    assert [(broker, len(names)) for broker, names in played.asked_topics] == [
        (1, 1), (1, TOPICS_PER_REQUEST), (2, TOPICS_PER_REQUEST), (1, 1),
    ]  # fmt: skip
    assert len(view.topic_settings) == 2 * TOPICS_PER_REQUEST + 2
    assert (view.stalls, view.unseen) == ((), ())


def test_a_store_that_does_not_answer_costs_one_request_a_minute() -> None:
    clock = ManualClock()
    played = Played(clock, topics=3)
    settled = seen(played, clock)
    played.waits_for_store = True
    played.asked_topics.clear()
    first = seen(played, clock, settled)
    assert [(each.broker_id, each.what) for each in first.stalls] == [(1, TOPIC_SETTINGS)]
    second = seen(played, clock, first)
    assert second.stalls == first.stalls
    assert played.asked_topics == [(1, ["topic-00000"])]
    clock.now_ms += STALLED_FOR_MS
    assert seen(played, clock, second).stalls
    assert len(played.asked_topics) == 2
    clock.now_ms += STALLED_FOR_MS
    played.waits_for_store = False
    assert seen(played, clock, second).stalls == ()


def test_what_a_silent_broker_would_know_is_not_seen() -> None:
    clock = ManualClock()
    played = Played(clock, topics=1)
    played.silent = {2}
    view = seen(played, clock)
    assert view.brokers[2].round_trip_ms is None
    assert view.unseen == ("groups, disks and offsets of broker 2: it does not answer",)
