"""Records what three brokers of Apache Kafka 3.9.1 say to each other, and what they leave in ZooKeeper.

    python -m tests.oracle.record_cluster [FOLDER]

One JSON file a phase of a cluster's life in tests/differential/recorded/cluster: every request between brokers with its
answer, in order of arrival, and every znode that the phase made, changed or deleted. Ids that differ from run to run stay as
they were. Of the followers' Fetch requests only the first few of each kind and pair of brokers are kept.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.fetch import FetchRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.schema import Message
from tests.differential.batches import batch, headers
from tests.oracle.admin import Admin, ask
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, Cluster
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.oracle.tap import Exchange, Taps

FOLDER = Path(__file__).resolve().parent.parent / "differential" / "recorded" / "cluster"
KEPT_FETCHES = 4
QUIET_S = 1.2
LINE_WIDTH = 150

SETTINGS = {
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "replica.lag.time.max.ms": "2000",
    "log.retention.ms": "-1",  # the records are as old as their timestamps say
}


# --- a cluster whose members meet at taps ---


def tapped_cluster(kinds: tuple[str, ...], taps: Taps, settings: dict[str, str] | None = None) -> Cluster:
    """Every member advertises its tap to the others, and itself to clients."""
    cluster = Cluster((), settings={**SETTINGS, **(settings or {})})
    for number, kind in enumerate(kinds, 1):
        add_tapped(cluster, taps, number, kind)
    return cluster


def add_tapped(cluster: Cluster, taps: Taps, broker_id: int, kind: str) -> Broker:
    inside = lasting_port()
    tap = taps.taps.get(broker_id) or taps.add(broker_id, lambda: inside)
    tap.target_port = lambda: inside
    broker = cluster.add(broker_id, kind)
    outside = f"PLAINTEXT://127.0.0.1:{broker.port}"
    broker.settings["listeners"] = f"{outside},INTERNAL://127.0.0.1:{inside}"
    broker.settings["advertised.listeners"] = f"{outside},INTERNAL://127.0.0.1:{tap.port}"
    return broker


# --- plain data ---


def plain(message: Message, version: int) -> dict[str, Any]:
    """The fields that `version` has."""
    shown = {}
    for one in message.__fields__:
        if one.versions.covers(version):
            shown[one.name] = _plain(one.kind, getattr(message, one.name), version)
    return shown


def _plain(kind: str, value: Any, version: int) -> Any:
    if isinstance(value, Message):
        return plain(value, version)
    if kind == "array" and value is not None:
        return [_plain("uuid" if isinstance(item, bytes) else "", item, version) for item in value]
    if kind == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if kind == "records" and value is not None:
        found = [header for header in headers(bytes(value)) if isinstance(header, dict)]
        wanted = ("base_offset", "last_offset_delta", "leader_epoch", "attributes", "producer_id", "base_sequence")
        return [{name: header[name] for name in wanted} for header in found]
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return value


def shown(exchange: Exchange, since_ms: int) -> dict[str, Any]:
    answer = None if exchange.response is None else plain(exchange.response, exchange.version)
    return {
        "at_ms": exchange.at_ms - since_ms,
        "answered_ms": None if exchange.answered_ms is None else exchange.answered_ms - since_ms,
        "client_id": exchange.source,
        "to": exchange.target,
        "connection": exchange.connection,
        "api": f"{exchange.api_name} v{exchange.version}",
        "request": plain(exchange.request, exchange.version),
        "response": answer,
    }


def tree(client: KazooClient, path: str = "/") -> dict[str, Any]:
    """Every znode below `path` but ZooKeeper's own."""
    found: dict[str, Any] = {}
    try:
        data, stat = client.get(path)
        children = sorted(client.get_children(path))
    except NoNodeError:
        return found
    found[path] = {"data": (data or b"").decode(), "version": stat.version, "ephemeral": stat.ephemeralOwner != 0}
    for child in children:
        if path != "/" or child != "zookeeper":
            found |= tree(client, f"{path.rstrip('/')}/{child}")
    return found


def dump(value: Any, indent: int = 0) -> str:
    """JSON with whatever fits on one line kept there."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= LINE_WIDTH or not isinstance(value, dict | list):
        return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {dump(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + dump(item, indent + 1) for item in value) + "\n" + " " * indent + "]"


# --- the recording ---


class Recorder:
    def __init__(self, cluster: Cluster, taps: Taps, folder: Path) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster)
        self._taps = taps
        self._folder = folder
        self._number = 0
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def phase(self, name: str, quiet_s: float = QUIET_S) -> Iterator[None]:
        """What happens inside goes to a file of its own."""
        before, heard, since_ms = self._tree(), len(self._taps.heard), self._taps.now_ms()
        yield
        time.sleep(quiet_s)
        after = self._tree()
        changed = {path: node for path, node in after.items() if before.get(path) != node}
        changed |= {path: {"deleted": True} for path in before if path not in after}
        exchanges = [shown(one, since_ms) for one in _without_repetitions(self._taps.heard[heard:])]
        self._number += 1
        path = self._folder / f"{self._number:02}-{name}.json"
        path.write_text(
            dump({"exchanges": exchanges, "znodes": dict(sorted(changed.items()))}) + "\n", encoding="utf-8"
        )
        print(f"{path.name}: {len(exchanges)} exchanges, {len(changed)} znodes")

    def _tree(self) -> dict[str, Any]:
        return tree(self.cluster.kazoo) if self.cluster._kazoo else {}


def _without_repetitions(heard: list[Exchange]) -> Iterator[Exchange]:
    seen: Counter[tuple[Any, ...]] = Counter()
    for exchange in heard:
        if isinstance(exchange.request, FetchRequest):
            named = sum(len(topic.partitions) for topic in exchange.request.topics)
            answered = 0 if exchange.response is None else len(exchange.response.responses)  # type: ignore[attr-defined]
            key = (exchange.source, exchange.target, named, answered)
            seen[key] += 1
            if seen[key] > KEPT_FETCHES:
                continue
        yield exchange


def produce(broker: Broker, topic: str, *values: bytes, acks: int = -1) -> None:
    data = [PartitionProduceData(index=0, records=batch(*values))]
    request = ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    (result,) = ask(broker, request, 11).responses[0].partition_responses
    assert result.error_code == 0, ErrorCode(result.error_code).name


def record(folder: Path) -> None:
    taps = Taps()
    cluster = tapped_cluster((KAFKA, KAFKA, KAFKA), taps)
    with taps:
        try:
            _live(Recorder(cluster, taps, folder))
        finally:
            cluster.close()


def _live(recorder: Recorder) -> None:
    cluster, admin = recorder.cluster, recorder.admin
    cluster.start_zookeeper()
    for broker_id in (1, 2, 3):
        with recorder.phase(f"start-of-broker-{broker_id}"):
            cluster.brokers[broker_id].start()
    assert cluster.controller_id == 1
    for name, work in _phases(cluster, admin):
        with recorder.phase(name):
            work()


def _phases(cluster: Cluster, admin: Admin) -> Iterator[tuple[str, Callable[[], object]]]:
    brokers = cluster.brokers
    yield "create-topic", lambda: admin.create("orders", {0: [1, 2, 3], 1: [2, 3, 1]})
    yield "produce", lambda: [produce(brokers[1], "orders", b"%d" % number) for number in range(3)]
    yield "delete-records", lambda: _delete_records(brokers[1], "orders", 2)
    yield "find-coordinator", lambda: (admin.coordinator_of("readers"), cluster.wait_in_sync("__consumer_offsets"))
    yield (
        "producer-ids",
        lambda: ask(brokers[2], InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)),
    )
    yield "isr-shrink", lambda: _shrink(cluster)
    yield "isr-expand", lambda: (brokers[3].resume(), cluster.wait_in_sync("orders"))
    yield "controlled-shutdown", brokers[2].stop
    yield "produce-while-away", lambda: produce(brokers[1], "orders", b"away")
    yield "return", lambda: (brokers[2].start(), cluster.wait_in_sync("orders"))
    yield "preferred-election", lambda: admin.elect_preferred("orders", (0, 1))
    yield "kill", lambda: (brokers[2].kill(), cluster.wait_for("2 is gone", lambda: 2 not in cluster.registered()))
    yield "return-after-kill", lambda: (brokers[2].start(), cluster.wait_in_sync("orders"))
    yield "reassign", lambda: admin.reassign("orders", {0: [3, 1]})
    yield "reassign-of-leader", lambda: admin.reassign("orders", {0: [2]})
    yield "reassign-cancelled", lambda: _cancel(cluster, admin)
    yield "grow", lambda: admin.grow("orders", 3)
    yield "delete-topic", lambda: admin.delete("orders")
    yield "create-after-delete", lambda: admin.create("orders", {0: [1, 2, 3], 1: [2, 3, 1]})
    yield "kill-of-controller", lambda: _kill_controller(cluster)
    yield "return-of-controller", lambda: (brokers[1].start(), cluster.wait_in_sync("orders"))
    yield "shutdown-of-controller", lambda: cluster.controller.stop()


def _delete_records(broker: Broker, topic: str, offset: int) -> None:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    ask(broker, DeleteRecordsRequest(topics=topics, timeout_ms=10_000))


def _shrink(cluster: Cluster) -> None:
    """A follower hangs for longer than replica.lag.time.max.ms, and for less than its session."""
    cluster.brokers[3].pause()
    try:
        produce(cluster.brokers[1], "orders", b"behind", acks=1)
        cluster.wait_for("the ISR has shrunk", lambda: 3 not in cluster.isr("orders", 0), 5.5)
    except TimeoutError:
        cluster.brokers[3].resume()
        raise


def _cancel(cluster: Cluster, admin: Admin) -> None:
    """A reassignment to a broker that hangs cannot end; it is cancelled."""
    cluster.brokers[3].pause()
    try:
        admin.reassign("orders", {0: [2, 3]}, wait=False)
        assert wait_until(lambda: bool(admin.reassignments()), 5)
        admin.reassign("orders", {0: None}, wait=False)
    finally:
        cluster.brokers[3].resume()


def _kill_controller(cluster: Cluster) -> None:
    cluster.brokers[1].kill()
    cluster.wait_for("another controls", lambda: cluster.controller_id in (2, 3), 15)


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
