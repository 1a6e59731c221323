"""`python -m benchmarks.share_consumers BOOTSTRAP GROUP TOPIC MEMBERS RECORDS`: a load of librdkafka's share consumers, each in
a process of its own.

They acknowledge implicitly. As `ShareLoad.java`, it prints "started N" when each has got records, N of which were acknowledged
until then, and "ended N M" when RECORDS are acknowledged, and M were delivered.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from typing import Any, Final

from confluent_kafka import KafkaException, ShareConsumer

POLL_S: Final = 0.2
LOOK_AGAIN_S: Final = 0.01


def _counter() -> Synchronized[int]:
    return multiprocessing.Value("q", 0)


@dataclass(frozen=True)
class Counters:
    """Shared by the processes."""

    delivered: Synchronized[int] = field(default_factory=_counter)
    acknowledged: Synchronized[int] = field(default_factory=_counter)
    have_started: Synchronized[int] = field(default_factory=_counter)
    """Members that have got records."""
    wanted: Synchronized[int] = field(default_factory=_counter)
    """Acknowledged records at which members end."""


def add(counter: Synchronized[int], number: int) -> None:
    with counter.get_lock():
        counter.value += number


def consume(bootstrap: str, group: str, topic: str, counters: Counters) -> None:
    """One member, until enough is acknowledged."""

    def acknowledged(offsets: dict[Any, set[int]], error: KafkaException | None) -> None:
        if error is not None:
            print(error, file=sys.stderr)
            return
        add(counters.acknowledged, sum(map(len, offsets.values())))

    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.set_acknowledgement_commit_callback(acknowledged)
    consumer.subscribe([topic])
    has_started = False
    while counters.acknowledged.value < counters.wanted.value:
        got = len(consumer.poll(POLL_S))
        add(counters.delivered, got)
        if got and not has_started:
            has_started = True
            add(counters.have_started, 1)
    consumer.close()


def main(bootstrap: str, group: str, topic: str, members: str, records: str) -> None:
    counters, count, wanted = Counters(), int(members), int(records)
    counters.wanted.value = wanted
    processes = [
        multiprocessing.Process(target=consume, args=(bootstrap, group, topic, counters)) for _ in range(count)
    ]
    for process in processes:
        process.start()
    for counter, enough, word in ((counters.have_started, count, "started"), (counters.acknowledged, wanted, "ended")):
        while counter.value < enough:
            if not any(process.is_alive() for process in processes):
                raise SystemExit("the members have ended")
            time.sleep(LOOK_AGAIN_S)
        print(word, counters.acknowledged.value, counters.delivered.value, flush=True)
    for process in processes:
        process.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
