"""Asks the brokers of one cluster, and keeps what they answered as data that two clusters can agree on.

Broker 1 starts first and so is the controller of both. Automatic placement is random in both: of it only properties are
kept (`spread`). The order of in-sync sets and the count of leader epochs tell how a cluster came to where it is, which
depends on moments: sets are sorted, and epochs are kept only where a scenario says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.primitives import ZERO_UUID
from protocol.schema import Request
from tests.differential.normal import Names, normalised
from tests.differential.play import NO_RETENTION, grouped
from tests.differential.recording import dump
from tests.differential.wire import NoResponse, Wire
from tests.oracle.cluster import Cluster
from tests.oracle.process import wait_until
from tests.oracle.versions import newest_version

FOLDER = Path(__file__).resolve().parent / "recorded" / "cluster_admin"
RACKS = {1: "left", 2: "left", 3: "right"}
SETTINGS = {
    **NO_RETENTION,
    "replica.lag.time.max.ms": "30000",
    "controlled.shutdown.enable": "true",
    "offsets.topic.num.partitions": "1",
    "zookeeper.session.timeout.ms": "120000",
}
"""A session that no scenario outlasts: who hangs stays alive in everybody's eyes, on a slow machine too."""
CONTROLLER = 1
TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 120.0
"""Killed, a broker would stay registered for as long as its session."""

Answers = dict[str, dict[str, list[Any]]]
"""What was asked, as text -> versions -> what was answered, each time."""


class ClusterRun:
    """Three brokers of one kind, asked scenario by scenario."""

    def __init__(self, kind: str) -> None:
        self.cluster = Cluster((), settings=SETTINGS)
        for broker_id, rack in RACKS.items():
            self.cluster.add(broker_id, kind, {"broker.rack": rack}).stop_timeout_s = STOP_TIMEOUT_S
        self._kept: dict[str, dict[int, list[Any]]] = {}

    def __enter__(self) -> Self:
        cluster = self.cluster
        try:
            cluster.start_zookeeper()
            cluster.brokers[CONTROLLER].start()
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda broker_id: cluster.brokers[broker_id].start(), (2, 3)))
            cluster.wait_until_known()
        except BaseException:
            cluster.close()
            raise
        self.names = Names("", -1)
        self.names.ports = {broker.port: f"<port {one}>" for one, broker in cluster.brokers.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.__exit__(kind, error, trace)

    def take(self) -> Answers:
        """What was kept since the last time."""
        kept, self._kept = self._kept, {}
        return {what: grouped(answers) for what, answers in kept.items()}

    # -- what counts

    def ask(
        self,
        broker_id: int,
        request: Request,
        version: int | None = None,
        *,
        what: str = "",
        pick: Callable[[Any], None] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """The answer of one broker, kept under the API, the broker and `what`; in the newest version unless told."""
        version = newest_version(request) if version is None else version
        answer = self._ask(broker_id, request, version, timeout_s)
        if not isinstance(answer, NoResponse):
            if isinstance(answer, MetadataResponse):
                _settle(answer)
            if pick is not None:
                pick(answer)
        title = f"{request.api_name} to {broker_id}" + (f": {what}" if what else "")
        self._keep(title, version, normalised(answer, version, self.names))
        return answer

    def ask_every_version(
        self, broker_id: int, make: Callable[[int], Request], *, since: int = 0, **options: Any
    ) -> None:
        """`make` is told the version."""
        for version in range(since, newest_version(make(since)) + 1):
            self.ask(broker_id, make(version), version, **options)

    def note(self, what: str, value: Any) -> None:
        """Something that was worked out from answers."""
        self._keep(what, 0, value)

    def _keep(self, what: str, version: int, answer: Any) -> None:
        self._kept.setdefault(what, {}).setdefault(version, []).append(answer)

    # -- what prepares

    def do(self, broker_id: int, request: Request, version: int | None = None) -> Any:
        version = newest_version(request) if version is None else version
        answer = self._ask(broker_id, request, version, TIMEOUT_S)
        assert not isinstance(answer, NoResponse), f"{request.api_name} to {broker_id}: {answer.outcome}"
        return answer

    def _ask(self, broker_id: int, request: Request, version: int, timeout_s: float) -> Any:
        wire = Wire("127.0.0.1", self.cluster.brokers[broker_id].port)
        try:
            return wire.ask(request, version, timeout_s)
        finally:
            wire.close()

    @property
    def running(self) -> list[int]:
        return [one for one, broker in self.cluster.brokers.items() if broker.is_running]

    def topic(self, broker_id: int, name: str) -> Any:
        """The topic's part of a broker's Metadata."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (found,) = self.do(broker_id, request).topics
        return found

    def wait_for(self, name: str, condition: Callable[[Any], bool], brokers: Iterable[int] = ()) -> None:
        """Until the Metadata of `brokers`, every running one unless told, fulfils `condition` for the topic."""
        asked = list(brokers) or self.running
        ok = wait_until(lambda: all(condition(self.topic(one, name)) for one in asked), TIMEOUT_S)
        assert ok, f"{name}: {[self.topic(one, name) for one in asked]}\n{self.cluster.describe()}"

    def wait_until_whole(self, *names: str) -> None:
        """Until everybody sees every partition led, and every living replica in its in-sync set."""
        for name in names:
            self.wait_for(name, lambda topic: _is_whole(topic, set(self.running)))

    def wait_until_gone(self, *names: str) -> None:
        for name in names:
            self.wait_for(name, lambda topic: topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert wait_until(lambda: name not in self.cluster.topics(), TIMEOUT_S), name  # noqa: B023

    def spread(self, name: str) -> dict[str, Any]:
        """How the replicas of a topic were placed."""
        partitions = sorted(self.topic(CONTROLLER, name).partitions, key=lambda one: one.partition_index)
        return {
            "partitions": len(partitions),
            "replicas": sorted({len(set(one.replica_nodes)) for one in partitions}),
            "racks": sorted({len({RACKS[node] for node in one.replica_nodes}) for one in partitions}),
            "first replicas of a broker": sorted(Counter(one.replica_nodes[0] for one in partitions).values()),
            "replicas of a broker": sorted(Counter(node for one in partitions for node in one.replica_nodes).values()),
            "led by the first": all(one.leader_id == one.replica_nodes[0] for one in partitions),
        }


def _is_whole(topic: Any, alive: set[int]) -> bool:
    return topic.error_code == ErrorCode.NONE and all(
        one.error_code == ErrorCode.NONE and set(one.isr_nodes) == set(one.replica_nodes) & alive
        for one in topic.partitions
    )


def _settle(answer: MetadataResponse) -> None:
    for topic in answer.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic.topic_id = ZERO_UUID  # Apache Kafka remembers the id of a topic that went, now and then
        for partition in topic.partitions:
            partition.isr_nodes.sort()
            partition.offline_replicas.sort()
            partition.leader_epoch = min(partition.leader_epoch, 0)


# -- what is recorded


def path_of(scenario: str) -> Path:
    return FOLDER / f"{scenario}.json"


def save(scenario: str, answers: Answers) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path_of(scenario).write_text(dump(answers) + "\n", encoding="utf-8")


def load(scenario: str) -> Answers:
    path = path_of(scenario)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def recorded() -> Iterable[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))
