"""This broker's channel to the current controller: the one in the cluster image, in process if it is this broker.

Rules: `send` makes one attempt and does not pause: its callers decide how often to send. `ask` repeats the request, until its
timeout, while there is no controller, while the receiver is no longer the controller, and while no response comes. The
connection to a controller that was replaced is closed when the image names another: its pending requests fail, and are sent
to the new one. Nothing else would end them if the machine has failed.
Errors: OSError when no response came (it is unknown whether the request was executed); KafkaError(NOT_CONTROLLER) when the
image names no controller.
Source: Kafka NodeToControllerChannelManager, MetadataCacheControllerNodeProvider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from metadata.image import NO_CONTROLLER
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from protocol.schema import Request, Response

if TYPE_CHECKING:
    from client.event_loop.broker_client import BrokerClient
    from controller.controller import Controller
    from metadata.image import ClusterImage, MetadataCache
    from runtime.clock import Clock

RETRY_PAUSE_S = 0.1
# Errors of a broker that is no longer the controller; ControlledShutdown has one of its own.
_MOVED = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH})

R = TypeVar("R", bound=Response)
Connect = Callable[[int], "BrokerClient"]


class ControllerChannel:
    """Implements `replication.isr_requests.AlterPartitionChannel`. `connect` makes a client of a broker by its id."""

    def __init__(
        self, broker_id: int, controller: Controller, metadata: MetadataCache, connect: Connect, clock: Clock
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._metadata = metadata
        self._connect = connect
        self._clock = clock
        self._client_id = NO_CONTROLLER
        self._client: BrokerClient | None = None
        metadata.subscribe(self._on_image)

    def _on_image(self, image: ClusterImage) -> None:
        if image.controller_id != self._client_id:
            self.close()

    async def send(self, request: Request, version: int, response_type: type[R]) -> R:
        """Send a request once and return the response. Raises OSError, KafkaError(NOT_CONTROLLER)."""
        controller_id = self._metadata.image.controller_id
        if controller_id == self._broker_id:
            self.close()
            return cast(R, await controller_response(self._controller, request, version))
        if controller_id == NO_CONTROLLER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No controller is known.")
        if self._client is None or self._client_id != controller_id:
            self.close()
            self._client, self._client_id = self._connect(controller_id), controller_id
        return await self._client.send(request, version, response_type)

    async def ask(self, request: Request, version: int, response_type: type[R], *, timeout_ms: int) -> R:
        """Send a request until the controller responds with something else than NOT_CONTROLLER, for `timeout_ms` at most.
        Raises OSError (the last one), KafkaError(NOT_CONTROLLER)."""
        await asyncio.sleep(0)  # a handler becomes a task at its first wait, and only a task can be timed out
        end_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            failure: OSError | KafkaError
            try:
                response = await self.send(request, version, response_type)
                if cast("_ControllerResponse", response).error_code not in _MOVED:
                    return response
                failure = KafkaError(ErrorCode.NOT_CONTROLLER)
            except OSError as error:
                failure = error
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                failure = error
            if self._clock.monotonic_ms() >= end_ms:
                raise failure
            await asyncio.sleep(RETRY_PAUSE_S)

    def close(self) -> None:
        """Close the connection; the next `send` opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None


_ControllerResponse = AllocateProducerIdsResponse | AlterPartitionResponse | ControlledShutdownResponse


async def controller_response(controller: Controller, request: Request, version: int) -> Response:
    """Return the controller's response to a broker, over a connection or in process. Errors are in the response."""
    match request:
        case AlterPartitionRequest():
            return await _alter_partition(controller, request, version)
        case AllocateProducerIdsRequest():
            return await _allocate_producer_ids(controller, request)
        case ControlledShutdownRequest():
            return await _controlled_shutdown(controller, request)
        case _:
            raise AssertionError(f"{request.api_name} is not for the controller")


async def _alter_partition(
    controller: Controller, request: AlterPartitionRequest, version: int
) -> AlterPartitionResponse:
    try:
        return await controller.alter_partition(request, version)
    except KafkaError as error:
        return AlterPartitionResponse(throttle_time_ms=0, error_code=error.code, topics=[])


async def _allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    try:
        block = await controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return AllocateProducerIdsResponse(
            throttle_time_ms=0, error_code=error.code, producer_id_start=0, producer_id_len=0
        )
    return AllocateProducerIdsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        producer_id_start=block.first,
        producer_id_len=block.end - block.first,
    )


async def _controlled_shutdown(
    controller: Controller, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    try:
        remaining = await controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        code = ErrorCode.STALE_CONTROLLER_EPOCH if error.code is ErrorCode.NOT_CONTROLLER else error.code
        return ControlledShutdownResponse(error_code=code, remaining_partitions=[])
    return ControlledShutdownResponse(
        error_code=ErrorCode.NONE,
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining
        ],
    )
