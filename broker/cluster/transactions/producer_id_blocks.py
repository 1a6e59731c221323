"""The source of a broker's blocks of producer ids: the controller, or in old clusters the store.

Rules: AllocateProducerIds from `inter.broker.protocol.version` 3.0-IV0 on (KIP-730); below it, every broker allocates its
blocks in `/latest_producer_id_block`, as the controller does.
Source: Kafka ProducerIdManager.rpc, ZkProducerIdManager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from controller.producer_ids import allocate_block
from metadata.store.port import StoreError
from metadata.store.znodes import ProducerIdBlock
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from broker.cluster.controller_channel import ControllerChannel
    from config.inter_broker_version import InterBrokerVersion
    from metadata.store.port import Store

VERSION = 0
# Shorter than the request timeout of clients, so that they get an error they retry.
TIMEOUT_MS = 5_000


def producer_id_blocks(
    broker_id: int,
    broker_epoch: Callable[[], int],
    version: InterBrokerVersion,
    channel: ControllerChannel,
    store: Store,
) -> Callable[[], Awaitable[ProducerIdBlock]]:
    """Return a function that allocates the next block, and raises KafkaError."""

    async def from_controller() -> ProducerIdBlock:
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        try:
            response = await channel.ask(request, VERSION, AllocateProducerIdsResponse, timeout_ms=TIMEOUT_MS)
        except OSError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The controller does not response.") from error
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code))
        first = response.producer_id_start
        return ProducerIdBlock(broker_id, first, first + response.producer_id_len)

    async def from_store() -> ProducerIdBlock:
        try:
            return await allocate_block(store, broker_id)
        except StoreError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The store does not response.") from error

    return from_controller if version.supports_producer_id_allocation else from_store
