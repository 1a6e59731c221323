"""Exactly once from end to end, without a jar: the process of two streaming queries is killed again and again, and the broker
killed and restarted meanwhile; the output topic and the archive equal what was produced.

Killed means SIGKILL of Python and the JVM together, at moments that a seed chooses; SEED=number repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.spark.copies import CopiesProcess, assert_copied
from tests.interop.spark.feed import feed
from tests.interop.spark.job_cases import need_spark
from tests.oracle.barnabas import Barnabas

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

PARTITIONS = 3
CHUNK = 250
KILL, KILL_BROKER, STOP_BROKER = "kill", "kill broker", "stop broker"
SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "log.retention.ms": "-1",  # the records are as old as their timestamps say
    "transaction.state.log.num.partitions": "4",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Barnabas]:
    need_spark()
    folder = tmp_path / "broker"
    folder.mkdir()
    with Barnabas(SETTINGS, folder) as broker:
        yield broker


def feed_all(servers: str, count: int) -> None:
    """Known content, in processes that outlive restarts of the broker."""
    for first in range(0, count, CHUNK):
        feed(servers, "given", PARTITIONS, first, CHUNK)


def create(servers: str, *topics: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics]).values():
        future.result(60)


def play(broker: Barnabas, folder: Path, faults: list[str], *, count: int, per_batch: int, default_seed: int) -> None:
    """Copy and archive `count` records while `faults` happen, in an order and at moments that the seed chooses."""
    seed = int(os.environ.get("SEED", default_seed))
    chance = random.Random(seed)
    chance.shuffle(faults)
    print(f"SEED={seed}: {', '.join(faults)}")
    servers = broker.bootstrap_servers
    create(servers, "given", "copied")
    with ThreadPoolExecutor(1) as pool, CopiesProcess(servers, "given", "copied", folder, per_batch) as copies:
        feeding: Future[None] = pool.submit(feed_all, servers, count)
        copies.start(chance.choice((1, 3, 5)))
        for number, fault in enumerate(faults):
            copies.wait_for_batches(chance.randint(0, 4))
            time.sleep(chance.uniform(0, 2))
            copies.assert_alive(f"fault {number}")
            print(f"{fault} at batches {copies.batches()}")
            if fault == KILL:
                copies.kill()
                copies.start(chance.choice((1, 3, 5)))
            else:
                (broker.kill if fault == KILL_BROKER else broker.stop)()
                broker.start()
        copies.wait_for_batches(1)
        feeding.result()
        assert min(copies.batches()) < count // per_batch, "the faults came when everything was done"
        copies.finish(chance.choice((1, 3, 5)))
    assert_copied(servers, "given", "copied", folder, count)


def test_nothing_is_lost_or_repeated_though_the_job_and_the_broker_are_killed(broker: Barnabas, tmp_path: Path) -> None:
    play(broker, tmp_path, [KILL, KILL, KILL_BROKER], count=1500, per_batch=50, default_seed=1)


def test_nothing_is_lost_or_repeated_over_ten_kills_of_the_job(broker: Barnabas, tmp_path: Path) -> None:
    faults = [KILL] * 10 + [KILL_BROKER] * 3 + [STOP_BROKER] * 3
    play(broker, tmp_path, faults, count=9000, per_batch=100, default_seed=2)
