"""The fast path of Produce: requests that differ from an earlier one of their connection only in their records.

A producer repeats the bytes before its records: client id, acks, timeout and topic, and none follow. When two consecutive
requests were of one topic, their common bytes are kept, with their meaning (of a topic's id, as long as the topic has it).
Later requests are recognised by them: they are not decoded, and the response of a success is made by one `pack`. Decoding, the
objects of request and response, and encoding are half of what a request of one record costs.

Rules: learns from a request of one partition that is encoded exactly as our encoder does it, to a topic that any client may
write to, if the authorizer allows it: each request asks for that. Records are appended as on the slow path (`append_records`),
and what is not an immediate success continues there (`ProduceAppend`).
Invariant: no client can tell which path its request took: every byte of the responses is the same, and so is the log.
Source: none in Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, cast

from broker.handlers.partition_lookup import held_partition
from broker.handlers.records.produce import (
    ALL_REPLICAS,
    NO_ANSWER,
    TOPIC_IDS_VERSION,
    Postponed,
    ProduceAppend,
    append_records,
    has_arrived,
)
from broker.handlers.records.produce_checks import frame_refusal
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import CloseConnection, Deferred
from metadata.image import INTERNAL_TOPICS
from protocol.errors import KafkaError
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.primitives import ZERO_UUID
from protocol.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT
from protocol.varint import encode_uvarint
from storage.log.validation import LongValidation

if TYPE_CHECKING:
    from broker.network.dispatch import Frame, Outcome
    from broker.network.routes import Route
    from runtime.disk.filesystem import Buffer

# From this version on a response has the log start offset.
FIRST_VERSION = 5
# Of a frame: before this position are its API and version, which the route stands for, and its correlation id.
FRONT_POSITION = 8
# A partition and the length of its records, which is of one or two bytes where it is compact.
_INDEX_AND_LENGTH = Struct(">ii")
_unpack_classic = _INDEX_AND_LENGTH.unpack_from
_unpack_compact = Struct(">iBB").unpack_from
# Of a response: size and correlation id; of its row, partition, error, base offset, append time and log start offset.
_HEAD = Struct(">ii")
_SIZE_BYTES = 4
_ROW = Struct(">ihqqq")
_THROTTLE_TIME = Struct(">i")

Recognised = tuple[int, int, int]
"""A recognised request: its partition, and the start and end of its records in the frame."""


class RepeatedProduce:
    """The common bytes of the requests of one connection; `route` is None until they are known."""

    __slots__ = (
        "_asks",
        "_behind_records",
        "_behind_row",
        "_by_id",
        "_front",
        "_front_end",
        "_front_of_row",
        "_is_flexible",
        "_least_bytes",
        "_may_write",
        "_pack_response",
        "_response_bytes",
        "_services",
        "_throttle_position",
        "_topic",
        "_topic_id",
        "context",
        "request",
        "route",
    )

    def __init__(self) -> None:
        self.route: Route | None = None
        self._topic = ""
        self._topic_id = ZERO_UUID
        self._front = b""
        self._front_end = FRONT_POSITION

    # --- learning ---

    def learn(
        self,
        route: Route,
        frame: Buffer,
        position: int,
        request: ProduceRequest,
        context: RequestContext,
        _outcome: object,
    ) -> None:
        """Learn from a request on the slow path; its message begins at `position`."""
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        topic, data = request.topic_data[0].name, request.topic_data[0].partition_data[0]
        if topic != self._topic:  # useless for a client that writes to several topics in turn
            self._topic, self.route = topic, None
        elif route is not self.route or frame[FRONT_POSITION : self._front_end] != self._front:
            self.route = None
            may_repeat = ALL_REPLICAS <= request.acks <= 1 and topic and topic not in INTERNAL_TOPICS
            if not may_repeat or route.version < FIRST_VERSION:
                return
            if self._has_learned(route, frame, position, request, data):
                self._learn_response(route)
                self.context = context
                self._services = context.services
                *_, self._may_write = context.rights(route.filtered)
                self._asks = not self._may_write.are_open
                self.route = route

    def _has_learned(
        self, route: Route, frame: Buffer, position: int, request: ProduceRequest, data: PartitionProduceData
    ) -> bool:
        """Keep the bytes around the records, if they are exactly as expected."""
        if not data.records:
            return False
        in_front, _records, *rest = request.encode_chunks(route.version)
        records_at, behind = position + len(in_front), b"".join(rest)
        if frame[position:records_at] != in_front or frame[records_at + len(data.records) :] != behind:
            return False
        length_bytes = len(encode_uvarint(len(data.records) + 1)) if route.is_flexible else 4
        self._is_flexible = route.is_flexible
        self._front_end = records_at - length_bytes - 4
        self._front = bytes(frame[FRONT_POSITION : self._front_end])
        self._behind_records = behind
        self._topic_id = request.topic_data[0].topic_id
        self._by_id = route.version >= TOPIC_IDS_VERSION
        self._least_bytes = self._front_end + _INDEX_AND_LENGTH.size + HEADER_BYTES + len(behind)
        self.request = ProduceRequest(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=[TopicProduceData(name=self._topic, topic_id=self._topic_id, partition_data=[])],
        )
        return True

    def _learn_response(self, route: Route) -> None:
        """Keep the bytes of the slow path's response around its row."""
        zeros, ones = (self._response_of(route, value) for value in (0, -1))
        row_at = next(at for at in range(len(zeros)) if zeros[at] != ones[at])
        self._front_of_row = zeros[_HEAD.size : row_at]
        self._behind_row = zeros[row_at + _ROW.size :]
        throttled = self._response_of(route, 0, throttle_time_ms=-1)
        self._throttle_position = next(at for at in range(len(zeros)) if zeros[at] != throttled[at])
        self._response_bytes = len(zeros) - _SIZE_BYTES
        self._pack_response = Struct(f">ii{len(self._front_of_row)}sihqqq{len(self._behind_row)}s").pack

    def _response_of(self, route: Route, value: int, *, throttle_time_ms: int = 0) -> bytes:
        """Encode a response whose row has this value in every field."""
        row = PartitionProduceResponse(
            index=value, error_code=value, base_offset=value, log_append_time_ms=value, log_start_offset=value
        )
        response = ProduceResponse(
            responses=[self._topic_row(row)],
            throttle_time_ms=throttle_time_ms,
        )
        message = b"".join(route.encode(response, b""))
        return route.head(len(message) + route.head_bytes, 0) + message

    def _topic_row(self, *rows: PartitionProduceResponse) -> TopicProduceResponse:
        return TopicProduceResponse(name=self._topic, topic_id=self._topic_id, partition_responses=list(rows))

    # --- repeating ---

    def recognise(self, frame: Frame) -> Recognised | None:
        """Recognise a request of `route`; None if it differs in more than its records."""
        if len(frame) < self._least_bytes or not frame.startswith(self._front, FRONT_POSITION):
            return None
        at = self._front_end
        if self._is_flexible:
            index, first, second = _unpack_compact(frame, at)
            if first < 128:
                start, length = at + 5, first - 1
            elif second < 128:
                start, length = at + 6, (second << 7 | first & 127) - 1
            else:
                return None  # with so many records the slow path is a small part of the work
        else:
            index, length = _unpack_classic(frame, at)
            start = at + 8
        end = start + length
        if end + len(self._behind_records) != len(frame) or not frame.endswith(self._behind_records):
            return None
        if frame[start + ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT:
            return None
        if self._by_id and self._services.metadata.image.names_by_id.get(self._topic_id) != self._topic:
            return None  # the topic was deleted
        if self._asks and not self._may_write.now(self._topic, logs_denial=False):
            return None  # the slow path refuses it
        return index, start, end

    def handle(self, frame: Frame, recognised: Recognised, correlation_id: int) -> bytes | Outcome | Deferred[Outcome]:
        """Append the records of a request that was recognised."""
        index, start, end = recognised
        services, route, topic, acks = self._services, self.route, self._topic, self.request.acks
        assert route is not None
        try:
            partition = services.partitions.find(topic, index) or held_partition(services, topic, index)
            result = append_records(
                services, partition, memoryview(frame)[start:end], acks, services.clock.wall_ms(), route.version
            )
        except KafkaError as error:
            append = self._append(correlation_id, recognised)
            # What makes the whole request invalid comes before what is wrong with its partition.
            refusal = frame_refusal(memoryview(frame)[start:end]) or error
            return self._outcome(append, append.failed(topic, index, refusal))
        except LongValidation:
            append, row = self._append(correlation_id, recognised), self._topic_row()
            append.topics.append(row)
            data = PartitionProduceData(index=index, records=memoryview(frame)[start:end])
            postponed = Postponed.into(row.partition_responses, topic, data)
            return cast("Deferred[Outcome]", append.append_apart([postponed]))
        if not has_arrived(partition, result, acks):
            append = self._append(correlation_id, recognised)
            return self._outcome(append, append.appended(index, partition, result, end - start))
        if acks == NO_ANSWER:
            return None
        return self._pack_response(
            self._response_bytes,
            correlation_id,
            self._front_of_row,
            index,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            self._behind_row,
        )

    def throttled(self, frame: bytes, throttle_time_ms: int) -> bytes:
        """Return the frame of a response with this throttle time."""
        at = self._throttle_position
        return frame[:at] + _THROTTLE_TIME.pack(throttle_time_ms) + frame[at + _THROTTLE_TIME.size :]

    def as_slow_path(self, correlation_id: int, new: Recognised) -> tuple[ProduceRequest, RequestContext]:
        """Return request and context as the slow path would have made them, without records."""
        context, repeated = self.context, self.request
        request = ProduceRequest(
            transactional_id=repeated.transactional_id,
            acks=repeated.acks,
            timeout_ms=repeated.timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    topic_id=self._topic_id,
                    partition_data=[PartitionProduceData(index=new[0], records=None)],
                )
            ],
        )
        return request, RequestContext(
            context.api_version, correlation_id, context.client_id, context.connection, context.services
        )

    def _append(self, correlation_id: int, recognised: Recognised) -> ProduceAppend:
        return ProduceAppend(*self.as_slow_path(correlation_id, recognised))

    def _outcome(self, append: ProduceAppend, row: PartitionProduceResponse) -> Outcome | Deferred[Outcome]:
        """Return the slow path's response for this row."""
        append.topics.append(self._topic_row(row))
        try:
            return cast("Outcome | Deferred[Outcome]", append.outcome())
        except CloseConnection as close:
            return close
