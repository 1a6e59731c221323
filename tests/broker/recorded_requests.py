"""Handlers that record what a connection gives them, and the requests that the tests of connections send."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.handlers.brokers.api_versions import api_versions
from broker.handlers.records.produce import produce_errors
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import CloseConnection, Deferred
from broker.network.routes import Handler
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.schema import Message, Response
from security.access import NOTHING

V = 9  # of Produce, flexible
HEARTBEAT_V = 4
BARRIER_MS = 8  # of a produce that nothing may overtake


def produce_of(records: bytes, *, acks: int = -1, timeout_ms: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )


def produced(base_offset: int) -> ProduceResponse:
    row = PartitionProduceResponse(index=0, error_code=ErrorCode.NONE, base_offset=base_offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])


def base_offset(response: Response) -> int:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].base_offset


def heartbeat_of(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


class Log:
    """Handlers that record what they got. A produce with timeout_ms=0 answers at once, others when `finish` says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.records: list[Any] = []
        self.waiting: list[tuple[int, Deferred[ProduceResponse]]] = []
        self.abandoned: list[int] = []
        self.contexts: list[RequestContext] = []

        @handles(ProduceRequest, NOTHING, errors=produce_errors)
        def produce(
            request: ProduceRequest, context: RequestContext
        ) -> ProduceResponse | Deferred[ProduceResponse] | None:
            number = len(self.records)
            self.started.append(f"produce {number}")
            self.records.append(request.topic_data[0].partition_data[0].records)
            self.contexts.append(context)
            if request.acks == 0:
                return None
            if request.timeout_ms == 0:
                return produced(number)
            deferred: Deferred[ProduceResponse] = Deferred(is_barrier=request.timeout_ms == BARRIER_MS)
            deferred.on_abandon(lambda: self.abandoned.append(number))
            self.waiting.append((number, deferred))
            return deferred

        @handles(HeartbeatRequest, NOTHING)
        async def heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
            self.started.append(f"heartbeat {request.group_id}")
            self.contexts.append(context)
            if request.group_id == "close":
                raise CloseConnection("the group wants it")
            if request.group_id == "wait":
                self.gate = asyncio.get_running_loop().create_future()
                await self.gate
            return HeartbeatResponse(error_code=ErrorCode.NONE)

        self.handlers: list[Handler[Any]] = [produce, heartbeat, api_versions]

    def finish(self, number: int) -> None:
        for waiting, deferred in self.waiting:
            if waiting == number:
                deferred.complete(produced(number))


def filled(message_type: type[Message]) -> Any:
    """Return a message with one element in each array."""
    values: dict[str, Any] = {}
    texts = {"string": "text", "bytes_": b"", "records": None, "bool_": False, "uuid": b"\0" * 16, "float64": 1.0}
    for field in message_type.__fields__:
        if field.kind == "array":
            element = field.element
            is_message = isinstance(element, type) and issubclass(element, Message)
            values[field.name] = [filled(element) if is_message else "text" if element == "string" else 0]  # type: ignore[arg-type]
        else:
            values[field.name] = texts.get(field.kind, 0)
    return message_type(**values)
