"""Processes of a relay, and brokers, are killed while they deliver: every record comes once, not early, in the order of due
times."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.launch import command
from tests.barnabas.supervisor.several import PATIENCE_S, Several, kill, until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

PARTITIONS, RECORDS, SPAN_MS, KILLS, PAUSE_S = 4, 6_000, 30_000, 6, 4
QUICK = {
    "barnabas.relay.session.timeout.ms": "2000",
    "barnabas.relay.transaction.timeout.ms": "2000",
    "barnabas.relay.near.ms": "3000",  # most records are copied into a bucket
}
OF_THREE = {"default.replication.factor": "3", "min.insync.replicas": "2"}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class RelayProcesses:
    """Two of them; one that is killed is started again."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._line = command("relay", "-b", servers)
        for name, value in QUICK.items():
            self._line += ["--override", f"{name}={value}"]
        self._folder = folder
        self._begun = 0
        self._running = [self._begin(), self._begin()]

    def _begin(self) -> subprocess.Popen[bytes]:
        self._begun += 1
        with (self._folder / f"relay-{self._begun}").open("wb") as log:
            return subprocess.Popen(self._line, stdout=subprocess.DEVNULL, stderr=log)

    def kill_one(self, index: int) -> None:
        kill(self._running[index].pid)
        self._running[index].wait()
        self._running[index] = self._begin()

    def stop(self) -> list[int]:
        for each in self._running:
            each.terminate()
        return [each.wait(PATIENCE_S) for each in self._running]

    def close(self) -> None:
        for each in self._running:
            each.kill()
            each.wait()


@contextmanager
def relays(servers: str, folder: Path) -> Iterator[RelayProcesses]:
    running = RelayProcesses(servers, folder)
    try:
        yield running
    finally:
        running.close()


def kill_broker(brokers: Several, name: str) -> None:
    """Return when it was started again."""
    again = re.compile(rf"again: name={name} process_id=([0-9]+)")
    count = len(again.findall(brokers.log.read_text()))
    kill(brokers.processes[name])
    until(lambda: len(again.findall(brokers.log.read_text())) > count)
    brokers.processes[name] = int(again.findall(brokers.log.read_text())[-1])


def produce(servers: str, randomness: random.Random) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    rule = {"source": "later", "kind": "delay", "target": "now", "partitioner": "same"}
    producer.produce("barnabas-relay-rules", json.dumps(rule), "later")
    begin_ms = wall_ms() + 2_000
    for number in range(RECORDS):
        due_ms = begin_ms + randomness.randrange(SPAN_MS)
        headers = {"barnabas-deliver-at": str(due_ms).encode()}
        producer.produce("later", f"{number} {due_ms}", f"k{number % 97}", headers=headers)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize("count", [1, 3])
def test_every_record_comes_once_in_order(tmp_path: Path, count: int) -> None:
    randomness = random.Random(count)
    settings = {"group.min.session.timeout.ms": "1000", "transaction.state.log.num.partitions": "8"}
    with Several(tmp_path, count, settings=settings | (OF_THREE if count == 3 else {})) as brokers:
        servers = brokers.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, count) for name in ("later", "now")]).values():
            future.result(PATIENCE_S)
        with relays(servers, tmp_path) as running:
            until(lambda: "barnabas-relay-rules" in admin.list_topics(timeout=PATIENCE_S).topics)
            produce(servers, randomness)
            consumer = Consumer({
                "bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            })  # fmt: skip
            consumer.subscribe(["now"])
            due_by_partition: dict[int, list[int]] = defaultdict(list)
            seen: list[int] = []
            kills, kill_at = 0, time.monotonic() + PAUSE_S
            end = time.monotonic() + SPAN_MS / 1000 + PATIENCE_S
            quiet_since = time.monotonic()
            # A while longer, for what would come twice.
            while time.monotonic() < end and (len(set(seen)) < RECORDS or time.monotonic() - quiet_since < PAUSE_S):
                for message in consumer.consume(500, 0.2):
                    assert message.error() is None, message.error()
                    quiet_since = time.monotonic()
                    number, due_ms = map(int, (message.value() or b"").split())
                    assert due_ms <= message.timestamp()[1] <= wall_ms()
                    due_by_partition[message.partition()].append(due_ms)
                    seen.append(number)
                if kills < KILLS and time.monotonic() > kill_at:
                    if count > 1 and kills % 2:
                        kill_broker(brokers, f"broker {randomness.randrange(count)}")
                    else:
                        running.kill_one(kills % 4 // 2)
                    kills, kill_at = kills + 1, time.monotonic() + PAUSE_S
            consumer.close()
            assert kills == KILLS
            assert sorted(seen) == list(range(RECORDS))
            assert all(due == sorted(due) for due in due_by_partition.values())
            assert running.stop() == [0, 0]
