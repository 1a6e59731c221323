"""Sends a follower's requests to a leader, in the versions that `inter.broker.protocol.version` prescribes.

    OffsetForLeaderEpoch, ListOffsets, Fetch  ->  BrokerClient  ->  the source broker

Rules: one request at a time; decides nothing. Errors of partitions are part of a response, OSError means that none came.
`replace` drops the connection on purpose: a request in progress ends with `ConnectionReplaced`.
Source: Kafka RemoteLeaderEndPoint, BrokerBlockingSender; KIP-903 (broker epoch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from client.event_loop.broker_client import BrokerClient
from config.broker import BrokerSettings
from config.inter_broker_version import InterBrokerVersion
from protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from replication.followers.fetch_session_of_follower import SessionRequest

R = TypeVar("R", bound=Response)

TOPIC_IDS_VERSION = 13
REPLICA_STATE_VERSION = 15
LATEST = -1
EARLIEST = -2


class ConnectionReplaced(ConnectionError):
    """Raised for a request whose connection was dropped by its owner: it says nothing about the source broker."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The `replica.fetch.*` settings and related ones."""

    broker_id: int
    partition_max_bytes: int
    response_max_bytes: int
    min_bytes: int
    wait_max_ms: int
    backoff_ms: int
    socket_timeout_ms: int
    fetchers_count: int

    @classmethod
    def of(cls, settings: BrokerSettings, broker_id: int) -> FetchSettings:
        return cls(
            broker_id=broker_id,
            partition_max_bytes=settings.replica_fetch_max_bytes,
            response_max_bytes=settings.replica_fetch_response_max_bytes,
            min_bytes=settings.replica_fetch_min_bytes,
            wait_max_ms=settings.replica_fetch_wait_max_ms,
            backoff_ms=settings.replica_fetch_backoff_ms,
            socket_timeout_ms=settings.replica_socket_timeout_ms,
            fetchers_count=max(settings.num_replica_fetchers, 1),  # partitions are divided among them
        )


class LeaderEndpoint:
    """One source broker. `connect` creates a client for it, `broker_epoch` returns the current epoch of this broker."""

    def __init__(
        self,
        connect: Callable[[], BrokerClient],
        settings: FetchSettings,
        version: InterBrokerVersion,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._connect = connect
        self._client = connect()
        self._settings = settings
        self._version = version
        self._broker_epoch = broker_epoch

    @property
    def may_use_topic_ids(self) -> bool:
        return self._version.fetch >= TOPIC_IDS_VERSION

    @property
    def is_answering(self) -> bool:
        """Whether a response has begun to arrive."""
        return self._client.is_receiving

    def replace(self) -> None:
        old, self._client = self._client, self._connect()
        old.close()

    def close(self) -> None:
        self._client.close()

    async def _send(self, request: Request, version: int, response_type: type[R]) -> R:
        client = self._client
        try:
            return await client.send(request, version, response_type)
        except OSError as error:
            if client is not self._client:
                raise ConnectionReplaced from error
            raise

    async def epochs(self, asked: Iterable[tuple[TopicPartition, int, int]]) -> dict[TopicPartition, EpochEndOffset]:
        """Ask where epochs end in the leader's log. `asked`: (partition, its leader epoch, the epoch). Raises OSError."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for (name, partition), leader_epoch, epoch in asked:
            topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
            topic.partitions.append(
                OffsetForLeaderPartition(partition=partition, current_leader_epoch=leader_epoch, leader_epoch=epoch)
            )
        request = OffsetForLeaderEpochRequest(replica_id=self._settings.broker_id, topics=list(topics.values()))
        response = await self._send(request, self._version.offset_for_leader_epoch, OffsetForLeaderEpochResponse)
        return {(topic.topic, row.partition): row for topic in response.topics for row in topic.partitions}

    async def offsets(
        self, asked: Iterable[tuple[TopicPartition, int]], timestamp: int
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        """Ask for the log's EARLIEST or LATEST offset. `asked`: (partition, its leader epoch). Raises OSError."""
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, partition), leader_epoch in asked:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
            )
        request = ListOffsetsRequest(replica_id=self._settings.broker_id, topics=list(topics.values()))
        response = await self._send(request, self._version.list_offsets, ListOffsetsResponse)
        return {(topic.name, row.partition_index): row for topic in response.topics for row in topic.partitions}

    async def fetch(self, part: SessionRequest, wait_ms: int) -> FetchResponse:
        """Fetch; the leader responds within `wait_ms`. Raises OSError."""
        version, settings = self._version.fetch, self._settings
        if not part.uses_topic_ids:
            version = min(version, TOPIC_IDS_VERSION - 1)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
        )
        if version >= REPLICA_STATE_VERSION:
            request.replica_state = ReplicaState(replica_id=settings.broker_id, replica_epoch=self._broker_epoch())
        else:
            request.replica_id = settings.broker_id
        return await self._send(request, version, FetchResponse)


def offset_in(answer: ListOffsetsPartitionResponse) -> int:
    """Return the offset of a row. v0 has a list, the newest first; -1 when it is empty."""
    return answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset
