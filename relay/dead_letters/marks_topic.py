"""Reads the topic of marks, and makes it.

Rules: it is read to its end, behind transactions that are still open: one of them may mark the same letters.
Errors: KafkaError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.admin.topics import NOT_ASSIGNED, create
from client.event_loop.whole_log import read_whole
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from relay.dead_letters.marks import MARKS_TOPIC

if TYPE_CHECKING:
    from client.admin.steps import Steps
    from client.event_loop.cluster_client import AsyncClusterClient
    from client.reading.positions import ReadRecord
    from relay.dead_letters.marks import Marks
    from runtime.randomness import Randomness


async def read_marks(client: AsyncClusterClient, randomness: Randomness, marks: Marks) -> None:
    """Take all marks of a topic; there are none as long as their topic does not exist."""
    found = (await client.topics([MARKS_TOPIC])).get(MARKS_TOPIC)
    if found is None:
        return

    def take(records: list[ReadRecord]) -> None:
        for read in records:
            marks.replay(read.record.key, read.record.value)

    await read_whole(client, randomness, {(MARKS_TOPIC, partition): None for partition in found.partitions}, take)


def make_marks_topic(timeout_ms: int) -> Steps[bool]:
    """Create the topic, with the brokers' number of replicas; return whether it was not there."""
    wanted = CreatableTopic(
        name=MARKS_TOPIC,
        num_partitions=1,
        replication_factor=NOT_ASSIGNED,
        assignments=[],
        configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
    )
    error = (yield from create({MARKS_TOPIC: wanted}, timeout_ms, validate_only=False))[MARKS_TOPIC]
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise KafkaError(error.code, f"topic {MARKS_TOPIC} cannot be made: {error.message}")
    return error is None
