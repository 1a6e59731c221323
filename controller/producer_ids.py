"""Producer ids: allocated in blocks of a thousand by the controller, and one by one by each broker.

Rules: a block is written to the store before its first id is used, so no id is allocated twice, whichever process crashes. A
broker requests the next block when its own is used up, and all callers wait for the same response. Logs that were restored
without their store contain producer ids of another one: a new producer must not get one of those.
Source: Kafka ZkProducerIdManager, RPCProducerIdManager; KIP-730.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.controller_term import Term
from metadata.store import znodes
from metadata.store.port import BadVersionError, ConnectionLossError, NoNodeError, Tree, ensure_path
from metadata.store.znodes import ProducerIdBlock
from protocol.errors import ErrorCode, KafkaError
from runtime.randomness import Randomness

BLOCK_SIZE = 1_000
# Clusters that count from 0 do not reach this number; above it, stores start at a random one.
RANDOM_START = 1 << 32
RANDOM_START_END = 1 << 61
LOSSES_MAX = 5
PRODUCER_ID_MAX = (1 << 63) - 1


async def allocate_block(store: Tree, broker_id: int) -> ProducerIdBlock:
    """Allocate the next block for `broker_id`. The write is conditional, so that two brokers get two blocks. If the response
    to a write is lost, the block is unused, and the next one is allocated. Raises ConnectionLossError when that happens
    too often."""
    losses = 0
    while True:
        try:
            data, stat = await store.get(znodes.PRODUCER_ID_BLOCK)
        except NoNodeError:
            await ensure_path(store, znodes.PRODUCER_ID_BLOCK)
            continue
        try:
            first = ProducerIdBlock.decode(data).end if data else 0
        except ValueError as error:  # a guess could allocate ids twice
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The last block of producer ids: {error}") from error
        if first > PRODUCER_ID_MAX - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been allocated.")
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE)
        try:
            await store.set(znodes.PRODUCER_ID_BLOCK, block.encode(), stat.version)
        except BadVersionError:
            continue
        except ConnectionLossError:
            losses += 1
            if losses == LOSSES_MAX:
                raise
            continue
        return block


async def use_separate_producer_ids(store: Tree, broker_id: int, randomness: Randomness) -> None:
    """Allocate ids that no other store allocates from now on, unless it does so already. For a standalone broker with logs
    of another store: a topic that is created again over such a log would treat the records of a new producer as
    duplicates of an earlier one with the same id, and acknowledge them without storing them."""
    data, stat = await store.get(znodes.PRODUCER_ID_BLOCK)
    try:
        last = ProducerIdBlock.decode(data) if data else None
    except ValueError:
        return  # no id is allocated at all, see `allocate_block`
    if last is not None and last.end >= RANDOM_START:
        return
    first = randomness.randrange(RANDOM_START, RANDOM_START_END) // BLOCK_SIZE * BLOCK_SIZE + BLOCK_SIZE
    await store.set(
        znodes.PRODUCER_ID_BLOCK, ProducerIdBlock(broker_id, first - BLOCK_SIZE, first).encode(), stat.version
    )


async def allocate(term: Term, broker_id: int, broker_epoch: int | None) -> ProducerIdBlock:
    """Allocate a block for a broker; `broker_epoch` is None where it need not be checked. Raises KafkaError:
    BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
    if broker_epoch is not None:
        known = term.context.live_brokers.get(broker_id)
        if known is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if known.epoch != broker_epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    return await allocate_block(term.session, broker_id)


class ProducerIds:
    """A broker's producer ids. `allocate` requests the next block from the controller."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next_id(self) -> int:
        """Return the next id. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS), which clients retry, if there is no block."""
        if self._next == self._end:
            async with self._refill:
                if self._next == self._end:
                    try:
                        block = await self._allocate()
                    except KafkaError as error:
                        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error
                    self._next, self._end = block.first, block.end
        given = self._next
        self._next += 1
        return given
