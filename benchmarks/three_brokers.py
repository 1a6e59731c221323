"""`python -m benchmarks.three_brokers [--only store,zookeeper,kafka] [--partitions 10000] [--replicas 1] [--rounds 3]`: three
brokers on this machine, and what keeps their metadata.

    store       barnabas start --brokers 3: brokers, store server and supervisor
    zookeeper   three brokers of ours over a real ZooKeeper
    kafka       three brokers of Apache Kafka over a real ZooKeeper

Measured, on empty directories, of one after the other:
- start: from the first process to a record that all replicas of a new topic with three replicas have acknowledged;
- memory: of all processes together, shared pages counted once (PSS), some seconds later;
- create: from the first CreateTopics to a record acknowledged by the last of so many partitions, in topics of a hundred.
A figure is the median of the rounds, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers import BROKERS, KAFKA_OPTIONS
from benchmarks.many_partitions import PER_TOPIC, TIMEOUT_S, TOPICS_AT_ONCE
from benchmarks.process import descendants, pss_bytes
from benchmarks.wire import produce_answer
from tests.barnabas.supervisor.several import Several
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.kafka import KafkaServer
from tests.oracle.zookeeper import Ensemble

SETTLE_S = 5.0
MB = 1_000_000

Started = tuple[str, list[int]]
"""Bootstrap servers, and the processes that belong to them, with all that descend from these."""


@contextmanager
def store() -> Iterator[Started]:
    with TemporaryDirectory(prefix="bench-") as folder, Several(Path(folder), BROKERS) as brokers:
        yield brokers.bootstrap_servers, [brokers.process.pid]
        brokers.stop()


@contextmanager
def over_zookeeper(kind: str) -> Iterator[Started]:
    cluster = Cluster((kind,) * BROKERS)
    for member in cluster.brokers.values():
        if isinstance(member, KafkaServer):
            member.options = KAFKA_OPTIONS
    with cluster:
        assert isinstance(cluster.zookeeper, Ensemble)
        servers = [*cluster.brokers.values(), *cluster.zookeeper.servers.values()]
        yield cluster.bootstrap_servers, [each.process.pid for each in servers if each.process is not None]


KINDS: dict[str, Callable[[], AbstractContextManager[Started]]] = {
    "store": store,
    "zookeeper": lambda: over_zookeeper(OURS),
    "kafka": lambda: over_zookeeper(KAFKA),
}


def create(admin: AdminClient, names: list[str], partitions: int, replicas: int) -> None:
    for at in range(0, len(names), TOPICS_AT_ONCE):
        topics = [NewTopic(name, partitions, replicas) for name in names[at : at + TOPICS_AT_ONCE]]
        for created in admin.create_topics(topics, operation_timeout=TIMEOUT_S).values():
            created.result(TIMEOUT_S)


def acknowledge(admin: AdminClient, topic: str, partition: int) -> None:
    """Return when all replicas in sync have a record of this partition."""
    deadline = time.perf_counter() + TIMEOUT_S
    while time.perf_counter() < deadline:
        metadata = admin.list_topics(topic, 10)
        found = metadata.topics[topic].partitions.get(partition)
        if found is not None and found.leader in metadata.brokers:
            leader = metadata.brokers[found.leader]
            if produce_answer((leader.host, leader.port), topic, partition, acks=-1) == 0:
                return
        time.sleep(0.005)
    raise TimeoutError(f"{topic}-{partition} acknowledged nothing in {TIMEOUT_S:.0f} s")


def measure(kind: str, partitions: int, replicas: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    began = time.perf_counter()
    with KINDS[kind]() as (bootstrap_servers, processes):
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        create(admin, ["ready"], 1, BROKERS)
        acknowledge(admin, "ready", 0)
        figures["start s"] = time.perf_counter() - began
        time.sleep(SETTLE_S)
        figures["memory MB"] = sum(pss_bytes(pid) for root in processes for pid in descendants(root)) / MB
        if partitions:
            names = [f"many-{number:05}" for number in range(partitions // PER_TOPIC)]
            began = time.perf_counter()
            create(admin, names, PER_TOPIC, replicas)
            acknowledge(admin, names[-1], PER_TOPIC - 1)
            figures["create s"] = time.perf_counter() - began
    print(kind, {name: round(figure, 2) for name, figure in figures.items()}, flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(KINDS), help="some of these, comma separated")
    parser.add_argument("--partitions", type=int, default=10_000, help="how many are created; 0: none")
    parser.add_argument("--replicas", type=int, default=1, help="of each of these partitions")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds = [kind.strip() for kind in options.only.split(",")]
    found: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in kinds}
    for _ in range(options.rounds):
        for kind in kinds:
            for name, figure in measure(kind, options.partitions, options.replicas).items():
                found[kind][name].append(figure)
    print(f"\n| figure | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for name in found[kinds[0]]:
        row = [found[kind][name] for kind in kinds]
        cells = [f"{statistics.median(each):,.3g} ({min(each):,.3g} to {max(each):,.3g})" for each in row]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
