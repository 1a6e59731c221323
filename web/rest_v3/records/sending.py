"""Gives records to the producer of the user, and says what became of each.

Rules: a partition that the topic does not have is refused here, as the producer would wait for it. A producer that may do
nothing any more is replaced for the records that follow. Nothing is created by a record: the topic exists, and one that is
deleted while a stream is open is refused from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import to_json

from client.errors import FatalError
from protocol.errors import ErrorCode, KafkaError
from web.errors import HttpProblem
from web.rest_v3.asked import AskedCluster
from web.rest_v3.errors import problem_of
from web.rest_v3.records.record import RecordToSend, new_record, report_of

if TYPE_CHECKING:
    import asyncio

    from client.event_loop.producer import AsyncProducer, Delivered
    from web.rest_v3.resources import ErrorData, ProduceReport


MAX_AGE_MS: Final = 2_000
"""How old may be what is known of a topic."""
SENDING_S: Final = 60.0
"""How long records may wait to be taken by the producer: deliveries take half of it."""


class Sent(NamedTuple):
    """A record whose delivery is under way."""

    record: RecordToSend
    delivery: asyncio.Future[Delivered]


class RecordSender:
    """Sends to one topic."""

    def __init__(self, v3: AskedCluster, topic: str) -> None:
        self._v3 = v3
        self._topic = topic
        self._producer: AsyncProducer | None = None
        self._partitions_count = 0
        self._checked_ms = 0

    async def check_topic(self) -> None:
        """Raises KafkaError when the topic is not there, or may not be described."""
        self._partitions_count = await self._count(MAX_AGE_MS)
        self._checked_ms = self._v3.clock.monotonic_ms()

    async def send(self, fields: dict[str, Any]) -> Sent | HttpProblem:
        """Take a record; return when there is memory for it."""
        try:
            record = new_record(fields)
            if self._v3.clock.monotonic_ms() - self._checked_ms > MAX_AGE_MS:
                await self.check_topic()  # it may have been deleted while the stream was open
            if record.partition is not None:
                await self._check_partition(record.partition)
            if self._producer is None:
                self._producer = await self._v3.user.producer()
            delivery = await self._producer.send(
                self._topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (HttpProblem, KafkaError, OSError) as error:
            if isinstance(error, FatalError):
                self._producer = None
            return problem_of(error)
        return Sent(record, delivery)

    def outcome(self, sent: Sent) -> ProduceReport | HttpProblem:
        """Return what became of a record whose delivery is done."""
        error = sent.delivery.exception()
        if error is None:
            return report_of(self._v3.cluster_id, sent.record, sent.delivery.result())
        assert isinstance(error, KafkaError), "a delivery fails with nothing else"
        if isinstance(error, FatalError):
            self._producer = None
        return problem_of(error)

    def report(self, sent: Sent | HttpProblem) -> bytes:
        """Return what is told, as a line of JSON."""
        found = self.outcome(sent) if isinstance(sent, Sent) else sent
        return to_json(error_data(found) if isinstance(found, HttpProblem) else found) + b"\n"

    async def _check_partition(self, partition: int) -> None:
        """Raises KafkaError for a partition that is not there, also when a broker is asked again."""
        if partition >= self._partitions_count:
            self._partitions_count = await self._count(0)
            if partition >= self._partitions_count:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _count(self, max_age_ms: int) -> int:
        """Return how many partitions the topic has. Raises KafkaError when it is not there."""

        async def ask() -> int:
            found = await self._v3.user.topics([self._topic])
            if self._topic not in found:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return len(found[self._topic].partitions)

        return await self._v3.user.recent.get(("partitions", self._topic), max_age_ms, ask)


def error_data(problem: HttpProblem) -> ErrorData:
    return {"error_code": problem.number, "message": problem.message}
