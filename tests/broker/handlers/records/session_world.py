"""A broker with several partitions, and clients that read them by fetch sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from broker.handlers.records.fetch import fetch
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from replication.dependencies import PartitionContext
from replication.fetch_sessions import FetchSession
from replication.partition import Partition, WakeUps
from runtime.tasks import TaskScope
from storage.log.opening import open_log
from tests.broker.handlers.replica_broker import ReplicaBroker
from tests.replication.replica_world import ME, Replica, Surroundings
from tests.storage.logs import config, values_of, world

VERSION = 12
WAIT_MS = 500
FOLLOWER = 2
PARTITIONS = 3


class Several:
    """A broker with the partitions t-0, t-1, ... Everything about it is told by `state`."""

    def __init__(self, replicas: list[Replica], around: Surroundings, tasks: TaskScope) -> None:
        self.replicas = replicas
        self.around = around
        self.broker = ReplicaBroker(replicas[0], tasks)
        cast(Any, self.broker.services).partitions = self

    def find(self, topic: str, index: int) -> Partition | None:
        return self.replicas[index].partition if topic == "t" and index < len(self.replicas) else None

    def find_by_id(self, _topic_id: bytes, _index: int) -> Partition | None:
        return None

    def session(self, session_id: int) -> FetchSession:
        return self.broker.services.fetch_sessions._sessions[session_id]

    def touch_everything(self) -> None:
        for session in self.broker.services.fetch_sessions._sessions.values():
            for item in session.items.values():
                item.touch()

    def wait(self, duration_ms: int) -> None:
        self.broker.wait(duration_ms)
        self.around.now_ms = self.broker.clock.now_ms

    def state(self) -> list[Any]:
        found: list[Any] = [[change.isr for change in self.around.wishes]]
        for one in self.replicas:
            partition, leader = one.partition, one.partition.leader
            found.append((partition.high_watermark, partition.log.log_start_offset, partition.log.log_end_offset))
            if leader is not None:
                found.append(
                    [(each.leo, each.caught_up_ms, each.log_start_offset) for each in leader.followers.values()]
                )
        return found


def _made(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


@asynccontextmanager
async def several(folder: Path, count: int = PARTITIONS) -> AsyncIterator[Several]:
    async with world(_made(folder)) as around_logs, TaskScope("requests") as tasks:
        around = Surroundings()
        host = PartitionContext(ME, WakeUps(around.soon.append), around.doors())
        replicas = []
        for index in range(count):
            log = await open_log("t", index, f"{folder}/t-{index}", config(), around_logs.environment)
            replicas.append(Replica(Partition(log, host), around))
        made = Several(replicas, around, tasks)
        around.now_ms = made.broker.clock.now_ms
        yield made
        for one in replicas:
            await one.partition.log.close()


class Client:
    """Reads t by a session; says what changed, and now and then what did not. Keeps its answers."""

    def __init__(self, replica: int = -1, isolation: int = 0, max_bytes: int = 1 << 20) -> None:
        self.replica, self.isolation, self.max_bytes = replica, isolation, max_bytes
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.named = dict.fromkeys(range(PARTITIONS), -1)
        self.epochs = dict.fromkeys(range(PARTITIONS), 0)
        self.session_id = self.epoch = 0
        self.answers: list[Any] = []

    def request(self, wait_ms: int, also: int | None = None) -> FetchRequest:
        rows = [
            FetchPartition(
                partition=index,
                current_leader_epoch=self.epochs[index],
                fetch_offset=offset,
                partition_max_bytes=1 << 20,
                log_start_offset=0 if self.replica >= 0 else -1,
            )
            for index, offset in self.offsets.items()
            if self.epoch <= 0 or offset != self.named[index] or index == also
        ]
        self.named = dict(self.offsets)
        return FetchRequest(
            replica_id=self.replica,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic="t", partitions=rows)] if rows else [],
        )

    def take(self, response: FetchResponse, ends: list[int]) -> None:
        if response.error_code:
            self.session_id = self.epoch = 0
            return
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        for topic in response.responses:
            for row in topic.partitions:
                self.answers.append(
                    (
                        row.partition_index,
                        row.error_code,
                        row.high_watermark,
                        row.log_start_offset,
                        bytes(row.records or b""),
                    )
                )
                if row.records:
                    self.offsets[row.partition_index] = values_of(bytes(row.records))[-1][0] + 1
                elif row.error_code == 1:  # out of range
                    self.offsets[row.partition_index] = ends[row.partition_index]
                elif row.error_code:
                    self.epochs[row.partition_index] = -1
                    self.named[row.partition_index] = -1
        self.answers.append(None)


async def read(made: Several, client: Client, *, wait_ms: int = 0, also: int | None = None) -> None:
    answer = made.broker.start(fetch, client.request(wait_ms, also), VERSION)
    response = await answer.now()
    if response is None:
        made.wait(wait_ms)
        response = await answer.now()
    client.take(response, [one.partition.log.log_end_offset for one in made.replicas])
