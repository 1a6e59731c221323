"""`python -m benchmarks.consumer_groups [--members 500] [--rounds 5]`: how long a group of the consumer protocol (KIP-848)
takes to become stable beside Apache Kafka 4.3.0, once all members join at a time and once one leaves, and what it costs the
broker.

Each member is a connection with `client.membership.consumer`, which sends heartbeats and nothing else, so that the client is
light and the same for both. It takes and lets go of partitions at once. The group is stable when each partition has one
owner, every member the same epoch, and none two partitions more than another. Both brokers have the default settings of
groups: a member hears of a new assignment with its next heartbeat, up to 5 s later, so that a time is about a multiple of
5 s. Rounds alternate between the brokers; a ratio is that of the medians. Processor seconds are the broker's, from the first
request to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import struct
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Final

from benchmarks.brokers import KAFKA_OPTIONS, Running, ours
from benchmarks.process import usage
from benchmarks.workloads import Target
from client.membership.consumer import ConsumerMember
from client.membership.contract import GroupProtocol, MemberSettings, Revoked
from protocol.header import decode_response, encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import Request, Response
from tests.oracle.kraft import KraftKafka

MEMBERS: Final = 500
PARTITIONS_PER_MEMBER: Final = 2
ROUNDS: Final = 5
STABLE_WITHIN_S: Final = 120.0
HEARTBEAT_VERSION: Final = 1
NEWEST_LEVELS: Final = "barnabas.initial.features=newest"


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in s; the processor's are the broker's."""

    join_s: float
    join_cpu_s: float
    leave_s: float
    leave_cpu_s: float


class Group:
    """What the members of one group own, and their epochs: whether it is stable is known after each heartbeat."""

    def __init__(self, members_count: int, partitions_count: int) -> None:
        self._members_count, self._partitions_count = members_count, partitions_count
        self._owners: Counter[tuple[str, int]] = Counter()
        self._epochs: Counter[int] = Counter()
        self._members: dict[str, tuple[int, frozenset[tuple[str, int]]]] = {}
        self.stable = asyncio.Event()

    def told(self, member: ConsumerMember) -> None:
        self._forget(member)
        epoch, owned = member.membership.generation_id, frozenset(member.partitions)
        self._members[member.member_id] = epoch, owned
        self._epochs[epoch] += 1
        self._owners.update(owned)
        is_owned = len(self._owners) == self._owners.total() == self._partitions_count
        if is_owned and len(self._epochs) == 1 and len(self._members) == self._members_count:
            counts = [len(each) for _, each in self._members.values()]
            if max(counts) - min(counts) <= 1:  # else the coordinator has not looked at those that joined last
                self.stable.set()

    def left(self, member: ConsumerMember) -> None:
        self._forget(member)
        self._members_count -= 1
        self.stable.clear()

    def _forget(self, member: ConsumerMember) -> None:
        known = self._members.pop(member.member_id, None)
        if known is not None:
            self._epochs -= Counter([known[0]])
            self._owners -= Counter(known[1])


class Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: Request, version: int) -> Response:
        self._writer.writelines(encode_request(request, version, 1, "bench"))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(await self._reader.readexactly(size), request.response_type, version)[1]

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def _connected(target: Target, stack: AsyncExitStack) -> Connection:
    connection = Connection(*await asyncio.open_connection(*target.address))
    stack.push_async_callback(connection.close)
    return connection


async def _lives(member: ConsumerMember, connection: Connection, group: Group, leaves: asyncio.Event) -> None:
    """Send what the member wants sent, until it shall leave."""
    while not leaves.is_set():
        now_ms = time.monotonic_ns() // 1_000_000
        request = member.next(now_ms)
        if request is not None:
            response = await connection.ask(request, HEARTBEAT_VERSION)
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            member.answered(request, response, time.monotonic_ns() // 1_000_000)
            if member.error is not None:
                raise member.error
            while member.events:
                if isinstance(member.events.popleft(), Revoked):
                    member.let_go()
            if not leaves.is_set():
                group.told(member)
            continue
        wakeup_ms = member.wakeup_ms(now_ms)
        assert wakeup_ms is not None
        try:
            await asyncio.wait_for(leaves.wait(), (wakeup_ms - now_ms) / 1000)
        except TimeoutError:
            continue
    leaving = member.leave()
    assert leaving is not None
    await connection.ask(leaving, HEARTBEAT_VERSION)


async def _is_ready(target: Target, stack: AsyncExitStack, group_id: str, topic: str) -> bytes:
    """Wait for the group's coordinator; return the id of the topic."""
    connection = await _connected(target, stack)
    finding = FindCoordinatorRequest(coordinator_keys=[group_id], key_type=0)
    while True:
        found = await connection.ask(finding, 4)
        assert isinstance(found, FindCoordinatorResponse)
        if not found.coordinators[0].error_code:
            break
        await asyncio.sleep(0.1)
    asking = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    known = await connection.ask(asking, 12)
    assert isinstance(known, MetadataResponse)
    return known.topics[0].topic_id


async def measure(running: Running, members_count: int) -> Measured:
    target, pid = running.target, running.pids[0]
    topic = target.topic(members_count * PARTITIONS_PER_MEMBER)
    group_id = f"group-of-{topic}"
    settings = MemberSettings(protocol=GroupProtocol.CONSUMER)
    group = Group(members_count, members_count * PARTITIONS_PER_MEMBER)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        topic_id = await _is_ready(target, stack, group_id, topic)
        members = []
        for _ in range(members_count):
            member = ConsumerMember(group_id, uuid.uuid4().hex, [topic], settings, lambda _: 100)
            member.named({topic_id: topic})
            members.append((member, await _connected(target, stack), asyncio.Event()))
        started, cpu = time.perf_counter(), usage(pid).cpu_seconds
        for member, connection, leaves in members:
            tasks.create_task(_lives(member, connection, group, leaves))
        await asyncio.wait_for(group.stable.wait(), STABLE_WITHIN_S)
        joined, joined_cpu = time.perf_counter(), usage(pid).cpu_seconds
        first, _, leaves = members[0]
        group.left(first)
        leaves.set()
        await asyncio.wait_for(group.stable.wait(), STABLE_WITHIN_S)
        left, left_cpu = time.perf_counter(), usage(pid).cpu_seconds
        for _, _, leaves in members[1:]:
            leaves.set()
    target.delete_topics()
    return Measured(joined - started, joined_cpu - cpu, left - joined, left_cpu - joined_cpu)


@contextmanager
def newer_kafka() -> Iterator[Running]:
    """Apache Kafka 4.3.0 with the options of its own start script."""
    with KraftKafka({"offsets.topic.num.partitions": "50"}, KAFKA_OPTIONS) as broker:
        assert broker.process is not None
        yield Running("Kafka 4.3.0", Target(broker.bootstrap_servers), (broker.process.pid,), broker.data)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consumer_groups")
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    rounds: list[tuple[Measured, Measured]] = []
    with newer_kafka() as reference, ours(NEWEST_LEVELS) as own:
        for number in range(arguments.rounds):
            order = (own, reference) if number % 2 else (reference, own)
            figures = {running.name: asyncio.run(measure(running, arguments.members)) for running in order}
            for name, measured in figures.items():
                print(
                    f"{name:12} {arguments.members} members join {measured.join_s:6.2f} s, CPU {measured.join_cpu_s:5.2f} s;"
                    f" one leaves {measured.leave_s:6.2f} s, CPU {measured.leave_cpu_s:5.2f} s",
                    flush=True,
                )
            rounds.append((figures[own.name], figures[reference.name]))
    for field in fields(Measured):
        mine, theirs = (
            statistics.median(getattr(each, field.name) for each in row) for row in zip(*rounds, strict=True)
        )
        print(f"{field.name}: ours {mine:.2f}, Apache Kafka 4.3.0 {theirs:.2f}, ratio {mine / max(theirs, 0.01):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
