"""A broker that leads the partition t-0, with members of share groups; what is stored is stored by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.handlers.sharing.share_acknowledge import share_acknowledge
from broker.handlers.sharing.share_fetch import share_fetch
from broker.network.request_context import RequestContext
from config.share_group import ShareGroupConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from protocol.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from protocol.share_states import StateBatch
from replication.sharing.dependencies import NoSharingMetrics, SharingDependencies
from replication.sharing.share_partition import StoredShare
from replication.sharing.share_partitions import LedSharePartitions
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker

GROUP = "g"
NEWEST = 2
Done = Callable[[ErrorCode], None]


@dataclass
class Written:
    start_offset: int
    batches: list[StateBatch]
    done: Done


@dataclass
class States:
    """The share coordinator, by hand. Writes are answered at once with `error`, or by `settle` while it is held."""

    stored: StoredShare | ErrorCode = field(default_factory=lambda: StoredShare(1, 0, 0, []))
    error: ErrorCode = ErrorCode.NONE
    is_held: bool = False
    written: list[Written] = field(default_factory=list)
    waiting: deque[Done] = field(default_factory=deque)

    async def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> StoredShare:
        if isinstance(self.stored, ErrorCode):
            raise KafkaError(self.stored)
        return self.stored

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Done,
    ) -> None:
        self.written.append(Written(start_offset, list(batches), done))
        if self.is_held:
            self.waiting.append(done)
        else:
            done(self.error)

    def settle(self, error: ErrorCode = ErrorCode.NONE) -> None:
        while self.waiting:
            self.waiting.popleft()(error)


class SharingBroker:
    """`fetch` and `acknowledge` play one request of a member; each counts the epoch of its session."""

    def __init__(self, broker: ReplicaBroker, tasks: Any) -> None:
        self.broker = broker
        self.states = States()
        self.config = ShareGroupConfig()
        dependencies = SharingDependencies(
            clock=broker.clock,
            timer=broker.timer,
            tasks=tasks,
            states=self.states,
            config_of=lambda _group_id: self.config,
            call_soon=broker.turns.call_soon,
            metrics=NoSharingMetrics(),
        )
        self.sharing = LedSharePartitions(dependencies, 10)
        services = cast(Any, broker.services)
        services.sharing = self.sharing
        services.group_configs = SimpleNamespace(current=SimpleNamespace(share_of=lambda _group_id: self.config))
        services.serves_share_groups = lambda: True
        self.topic_id = broker.one.partition.topic_id
        image = broker.services.metadata.image
        broker.services.metadata.publish(replace(image, names_by_id={self.topic_id: "t"}))

    def set(self, **changed: Any) -> None:
        self.config = replace(self.config, **changed)

    def member(self, member_id: str, group_id: str = GROUP, connection_of: Member | None = None) -> Member:
        return Member(self, member_id, group_id, connection_of)


class Member:
    """A member with its session and its connection."""

    def __init__(
        self, around: SharingBroker, member_id: str, group_id: str, connection_of: Member | None = None
    ) -> None:
        self._around = around
        self.member_id = self.connection_id = member_id
        self.group_id = group_id
        self.epoch = 0
        self._contexts: dict[int, RequestContext] = {} if connection_of is None else connection_of._contexts

    def context(self, version: int) -> RequestContext:
        made = self._contexts.get(version)
        if made is None:
            made = self._contexts[version] = self._around.broker.context(version)
            made.connection.connection_id = self.connection_id
        return made

    def disconnect(self) -> None:
        for context in self._contexts.values():
            for callback in context.connection.closed_callbacks:
                callback()

    def fetch(
        self,
        *acknowledged: tuple[int, int, int],
        wait_ms: int = 0,
        records: int = 500,
        epoch: int | None = None,
        version: int = NEWEST,
        index: int = 0,
        **more: Any,
    ) -> Answer:
        """`acknowledged`: first offset, last offset, type."""
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in acknowledged
        ]
        given: dict[str, Any] = {
            "max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": records, "batch_size": records,
            "topics": [
                FetchTopic(
                    topic_id=self._around.topic_id,
                    partitions=[FetchPartition(partition_index=index, acknowledgement_batches=batches)],
                )
            ],
            "forgotten_topics_data": [],
        }  # fmt: skip
        request = ShareFetchRequest(
            group_id=self.group_id, member_id=self.member_id, share_session_epoch=self._next(epoch), **(given | more)
        )
        return self._start(share_fetch, request, version)

    def acknowledge(self, *acknowledged: tuple[int, int, int], epoch: int | None = None, **more: Any) -> Answer:
        batches = [
            AcknowledgedBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in acknowledged
        ]
        partitions = [AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)]
        given = {"topics": [AcknowledgeTopic(topic_id=self._around.topic_id, partitions=partitions)]} | more
        request = ShareAcknowledgeRequest(
            group_id=self.group_id, member_id=self.member_id, share_session_epoch=self._next(epoch), **given
        )
        return self._start(share_acknowledge, request, NEWEST)

    def _next(self, epoch: int | None) -> int:
        if epoch is not None:
            return epoch
        self.epoch += 1
        return self.epoch - 1

    def _start(self, handler: Any, request: Any, version: int) -> Answer:
        decoded = type(request).decode(request.encode(version), version)
        return Answer(self._around.broker, handler(decoded, self.context(version)), version)


@asynccontextmanager
async def sharing_broker(folder: Path, **settings: Any) -> AsyncIterator[SharingBroker]:
    async with replica_broker(folder, **settings) as broker:
        broker.one.lead(isr=(1,))
        yield SharingBroker(broker, broker.services.tasks)
