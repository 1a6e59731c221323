"""One data directory changes hands again and again, by seeds: each broker writes, deletes, compacts and moves what it
likes, and stops or is killed.

What `test_swap` tells of one way, this tells of many. A producer that belongs to no broker lives through all of it: its
sequence numbers go on with whoever has the directory, so that nothing of it is lost, doubled or out of order.

SEEDS=7,8 ROUNDS=20 pytest tests/interop/swap/test_rounds.py -m long
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.interop import kafka_directory
from tests.interop.kafka_directory import CODECS, SMALL_SEGMENTS, TOPICS
from tests.interop.retried_requests import answered, bounds
from tests.interop.swap.moved_directories import (
    MovedDirectories,
    assert_same,
    complaints_about_storage,
    move_log,
    producers,
    seen,
    verify_files,
)
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer

SEEDS = [int(seed) for seed in os.environ.get("SEEDS", "1,2,3").split(",")]
ROUNDS = int(os.environ.get("ROUNDS", "8"))
LASTING_TOPIC = "codec-none"

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(240 * ROUNDS)]


class Play:
    """What one seed does to a directory."""

    _admin: AdminClient

    def __init__(self, moved: MovedDirectories, seed: int) -> None:
        self._moved = moved
        self._random = random.Random(seed)
        self._bootstrap = f"127.0.0.1:{moved.port}"
        self._records = 10_000
        self._lasting = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 5}
        )
        self._lasting_records = 0

    def act(self, broker: Broker) -> list[str]:
        """A few things, one after another. Returns their names."""
        # For this broker alone, whose controller and leaders are known. One that lived on would find the next just started,
        # of either kind: told of no controller it waits for one, until its request has timed out (60 s), without asking again.
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        actions = [self._produce, self._go_on, self._delete_records, self._commit, self._join]
        actions += [self._compact, self._move, self._make_and_delete]
        if isinstance(broker, KafkaServer):
            actions += [self._transact] * 2
        chosen: list[Callable[[], None]] = [self._go_on, *self._random.choices(actions, k=6)]
        for action in chosen:
            action()
        return [action.__name__.strip("_") for action in chosen]

    def assert_nothing_of_the_lasting_producer_is_missing(self) -> None:
        values = [
            record.value
            for record in kafka_directory.read(self._bootstrap, LASTING_TOPIC, 0, "read_uncommitted")
            if record.value is not None and record.value.startswith(b"lasting")
        ]
        assert values == [b"lasting %d" % number for number in range(self._lasting_records)]

    def _produce(self) -> None:
        choose = self._random
        topic = choose.choice([*(f"codec-{codec}" for codec in CODECS), "shortened", "appendtime", "transactions"])
        count = choose.randint(1, 200)
        settings = {
            "compression.type": choose.choice(CODECS),
            "batch.num.messages": str(choose.choice((1, 7, 50))),
            "enable.idempotence": choose.choice(("true", "false")),
        }
        kafka_directory.produce(self._bootstrap, topic, count, settings, first=self._records)
        self._records += count

    def _go_on(self) -> None:
        refused: list[str] = []
        for _ in range(self._random.randint(1, 40)):
            self._lasting.produce(
                LASTING_TOPIC,
                b"lasting %d" % self._lasting_records,
                partition=0,
                on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
            )
            self._lasting_records += 1
        assert self._lasting.flush(60) == 0 and not refused, refused[:3]

    def _delete_records(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "looks"})
        low, high = bounds(consumer, "shortened", 0)
        consumer.close()
        offset = self._random.randint(low, low + (high - low) // 3)
        wanted = [TopicPartition("shortened", 0, offset)]
        for deleted in self._admin.delete_records(wanted).values():
            deleted.result(30)

    def _commit(self) -> None:
        choose = self._random
        topic = f"codec-{choose.choice(CODECS)}"
        group = choose.choice(("readers", "others"))
        kafka_directory.commit(self._bootstrap, group, topic, 0, choose.randint(0, 400), f"up to {choose.random()}")

    def _join(self) -> None:
        """From the start: the group has nothing to read else when nobody has produced."""
        kafka_directory.commit(self._bootstrap, "members", "codec-lz4", 0, 0, "")
        kafka_directory.consume_as_group(self._bootstrap, "members", "codec-lz4")

    def _compact(self) -> None:
        """What is cleaned must be all that is: how much else the next one would have cleaned already is its own affair."""
        config = dict(TOPICS["compacted"][1])
        resource = ConfigResource(ResourceType.TOPIC, "compacted", set_config=config)
        for changed in self._admin.alter_configs([resource]).values():
            changed.result(30)
        settings = {"enable.idempotence": "true", "batch.num.messages": str(self._random.choice((3, 10)))}
        kafka_directory.produce(self._bootstrap, "compacted", 200, settings, first=self._records)
        self._records += 200
        kafka_directory.wait_until_compacted(self._bootstrap, self._moved.folders)
        kafka_directory.seal_compacted(self._bootstrap)

    def _move(self) -> None:
        move_log(
            self._moved, self._random.choice(("codec-none", "codec-zstd", "shortened", "compacted", "transactions"))
        )

    def _make_and_delete(self) -> None:
        """Of a name that many had before: the next broker may find what is left of it."""
        topic = NewTopic("doomed", 2, 1, config=dict(SMALL_SEGMENTS))
        answered(
            lambda: self._admin.create_topics([topic])["doomed"].result(30)
        )  # what is being deleted is still there
        kafka_directory.produce(self._bootstrap, "doomed", 100, {"batch.num.messages": "10"})
        for gone in self._admin.delete_topics(["doomed"], operation_timeout=30).values():
            gone.result(30)

    def _transact(self) -> None:
        name = f"name-{self._random.randint(1, 3)}"
        kafka_directory.transact(self._bootstrap, "transactions", name, rounds=self._random.randint(1, 12))


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds(moved: MovedDirectories, seed: int) -> None:
    choose = random.Random(-seed)
    first: type[Broker] = choose.choice((KafkaServer, Barnabas))
    broker = moved.start(first)
    kafka_directory.fill(broker.bootstrap_servers, has_transactions=first is KafkaServer)
    kafka_directory.wait_until_compacted(broker.bootstrap_servers, moved.folders)
    kafka_directory.seal_compacted(broker.bootstrap_servers)
    play = Play(moved, seed)
    for number in range(ROUNDS):
        done = play.act(broker)
        before, known = seen(broker), producers(broker)
        end = choose.choice(("stop", "kill"))
        moved.stop(end)
        if end == "stop":
            verify_files(moved)
        # More often than not the other one: what each makes of its own is not what this is about.
        follows: type[Broker] = choose.choice(
            (KafkaServer, Barnabas, KafkaServer if type(broker) is Barnabas else Barnabas)
        )
        print(
            f"seed {seed} round {number}: {type(broker).__name__} {', '.join(done)}; {end}; {follows.__name__}",
            flush=True,
        )
        broker = moved.start(follows)
        assert_same(seen(broker), before)
        assert producers(broker) == known
        play.assert_nothing_of_the_lasting_producer_is_missing()
        if end == "stop":
            assert not complaints_about_storage(broker)
    moved.stop("stop")
    verify_files(moved)
