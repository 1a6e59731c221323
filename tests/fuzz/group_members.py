"""Fuzzing of a group coordinator by members: `python -m tests.fuzz.group_members --cases 2000 [--seed 1]`.

Each case is a new shard and some dozens of requests: heartbeats with epochs at their limits, partitions of topics that
do not exist, expressions of all kinds, ids of other members; commits; members of the classic protocol among them; a log
that refuses or holds what is appended; topics that come and go; time that passes. Nothing may be raised; every request
is answered once with an error that is told, or without one; no partition has two owners; epochs of the group only grow;
and what the log yields again is what there was.
"""

from __future__ import annotations

import argparse
import random
import sys
import uuid
from typing import Any

from coordinator.group.classic.member_join import Join
from coordinator.group.consumer.expressions import ResolvedExpressions, ResolveExpressions
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.membership import ConsumerHeartbeat
from coordinator.group.consumer.patterns import resolve
from coordinator.runtime.contract import Command
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.consumer.members import image, topic_id

INT_MAX = (1 << 31) - 1
EPOCHS = (-INT_MAX - 1, -3, -2, -1, 0, 1, 2, 3, INT_MAX)
IDS = ("a", "b", "c", "a", "b", "", " ", "ä" * 300)
INSTANCES = (None, None, None, "i", "j", "", " ")
TOPICS = ("t", "u", "v")
NAMES = (None, [], ["t"], ["t", "u"], ["nowhere"], ["t", "t"], [""])
EXPRESSIONS = (
    None, None, "", "t", ".*", "[tu]", "(a*)*b", "(t|tt)+$", "(((a{1000}){1000}){1000})", "[", "(?<=t)u", "\\", "t" * 5_000,
    "(" * 1_000 + ")" * 1_000,
)  # fmt: skip
PARTITIONS = ([], [0], [0, 1, 2], [-1], [INT_MAX], [0, 0], list(range(500)))
STEPS_MAX = 60


class Driver(GroupDriver):
    """Expressions are matched at once."""

    def command(self, command: Command) -> None:
        assert isinstance(command, ResolveExpressions), command
        outcome = ResolvedExpressions(
            command.group_id, resolve(command.expressions, list(self.topics.names())), command.version
        )
        self.do(lambda shard, now_ms: shard.on_expressions_resolved(outcome, now_ms))


class Case:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.driver = Driver()
        self.counts = {"t": 3, "u": 2, "v": 1}  # a topic of one id never gets fewer partitions
        self.driver.change_topics(image(t=3, u=2))
        self.asked: list[str] = []
        self.joins = 0
        self.refused = 0
        self.epoch = 0

    def run(self) -> int:
        """How many heartbeats were refused."""
        rng, driver = self.rng, self.driver
        for _ in range(rng.randint(5, STEPS_MAX)):
            step = rng.choices(
                (self._beat, self._commit, self._join_classic, self._disturb, self._pass_time), (20, 3, 2, 2, 4)
            )[0]
            step()
            self._check()
        driver.refuse_with, driver.is_holding = None, False
        driver.release()
        driver.advance(10_000_000)
        self._check()
        self._check_answers()
        return self.refused

    # --- steps ---

    def _beat(self) -> None:
        rng = self.rng
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=rng.choice(IDS),
            member_epoch=rng.choice((0, 0, self.epoch, self.epoch, *EPOCHS)),
            instance_id=rng.choice(INSTANCES),
            rack_id=rng.choice((None, None, "r", "")),
            rebalance_timeout_ms=rng.choice((-1, 0, 1, 5_000, 5_000, INT_MAX)),
            subscribed_topic_names=rng.choice(NAMES),
            subscribed_topic_regex=rng.choice(EXPRESSIONS),
            server_assignor=rng.choice((None, None, "uniform", "range", "none such")),
            topic_partitions=rng.choice((None, [], [], self._rows())),
        )
        waiter = f"beat {len(self.asked)}"
        beat = ConsumerHeartbeat(
            request, rng.choice((0, 1, 1)), "client", "/127.0.0.1", f"made {len(self.asked)}", waiter
        )
        self.asked.append(waiter)
        self.driver.do(lambda shard, now_ms: shard.consumer_heartbeat(beat, now_ms))

    def _rows(self) -> list[TopicPartitions]:
        rng = self.rng
        ids = (topic_id("t"), topic_id("u"), b"\xff" * 16, bytes(16))
        return [
            TopicPartitions(topic_id=rng.choice(ids), partitions=rng.choice(PARTITIONS))
            for _ in range(rng.randint(0, 4))
        ]

    def _commit(self) -> None:
        rng = self.rng
        row = OffsetCommitRequestPartition(
            partition_index=rng.randint(0, 3), committed_offset=rng.choice((-1, 0, 1 << 40)), committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=rng.choice((self.epoch, *EPOCHS)),
            member_id=rng.choice(IDS),
            group_instance_id=rng.choice(INSTANCES),
            topics=[OffsetCommitRequestTopic(name=rng.choice(TOPICS), partitions=[row])],
        )
        waiter = f"commit {len(self.asked)}"
        self.asked.append(waiter)
        version = rng.choice((7, 8, 9, 10))
        self.driver.do(lambda shard, now_ms: shard.commit_offsets(request, waiter, now_ms, version))

    def _join_classic(self) -> None:
        rng = self.rng
        if self.driver.is_holding:
            return  # what a classic group writes is replayed when it is committed, by whatever group the id then has
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=rng.choice(("", "a", "classic")),
            protocol_type=rng.choice(("consumer", "connect")),
            protocols=[JoinGroupRequestProtocol(name="range", metadata=rng.choice((b"", b"\0\3" + bytes(20))))],
        )
        self.joins += 1
        waiter = f"join {self.joins}"  # it may wait for other members as long as they like
        unique = str(uuid.UUID(int=self.joins))
        join = Join(request, rng.choice((1, 5)), "client", "/127.0.0.1", unique, waiter)
        self.driver.do(lambda shard, now_ms: shard.join(join, now_ms))

    def _disturb(self) -> None:
        rng, driver = self.rng, self.driver
        match rng.choice(("refuse", "hold", "fail", "well", "well", "topics", "reload")):
            case "refuse":
                driver.refuse_with = rng.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR))
            case "hold":
                driver.is_holding = True
            case "fail":
                driver.refuse_with, driver.is_holding = None, False
                driver.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                driver.reload()
            case "well":
                driver.refuse_with, driver.is_holding = None, False
                driver.release()
            case "topics":
                self.counts[rng.choice(TOPICS)] += rng.randint(0, 2)
                driver.change_topics(
                    image(**{name: count for name, count in self.counts.items() if rng.random() < 0.7})
                )
            case "reload":
                driver.refuse_with, driver.is_holding = None, False
                driver.release()
                driver.reload()

    def _pass_time(self) -> None:
        self.driver.advance(self.rng.choice((1, 1_000, 6_000, 60_000)))

    # --- what must hold ---

    def _check(self) -> None:
        driver = self.driver
        group = driver.shard._groups.find("g")
        if isinstance(group, ConsumerGroup):
            holders: dict[tuple[bytes, int], str] = {}
            for member_id, current in group.currents.items():
                assert member_id in group.subscriptions, f"{member_id} owns, and is no member"
                for place in _places(current.assigned) | _places(current.pending_revocation):
                    other = holders.setdefault(place, member_id)
                    assert other == member_id, f"{place} is at {other} and {member_id}"
            assert driver.refuse_with or driver.is_holding or group.epoch >= 0
            self.epoch = group.epoch
        if not driver.is_anything_in_flight:
            assert driver.loaded_again().durable_state() == driver.shard.durable_state()

    def _check_answers(self) -> None:
        answers = dict(self.driver.responses)
        assert len(self.driver.responses) == len(answers), "a request was answered twice"
        silent = [waiter for waiter in self.asked if waiter not in answers]
        assert not silent, f"no answer to {silent[0]}"
        for waiter, response in answers.items():
            code = getattr(response, "error_code", 0)
            self.refused += bool(code)
            if waiter.startswith("beat") and code and not ErrorCode(code).retriable:
                assert getattr(response, "error_message", None), f"{waiter}: {ErrorCode(code)!r} without a text"


def _places(partitions: Any) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, each in partitions.items() for partition in each}


def run(first_seed: int, cases: int) -> int:
    """How many heartbeats were refused. Raises AssertionError, with the seed that repeats it."""
    refused = 0
    for seed in range(first_seed, first_seed + cases):
        try:
            refused += Case(seed).run()
        except Exception as error:
            raise AssertionError(f"python -m tests.fuzz.group_members --seed {seed} --cases 1: {error!r}") from error
    return refused


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.group_members")
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.cases} cases, {run(options.seed, options.cases)} heartbeats refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
