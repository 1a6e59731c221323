"""Producer ids: handed out in blocks of a thousand by the controller, one by one by each broker.

Rules: a block is written to the tree before its first id is used, so no id is ever given twice, whoever crashes. A
broker asks for the next block when its own runs short, and every caller meanwhile waits for the same answer. Logs that came
with no store, or another one, know producers of its ids: a new producer must not look like one of those.
Source: Kafka ZkProducerIdManager, RPCProducerIdManager; KIP-730.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.term import Term
from metadata.store import znodes
from metadata.store.port import BadVersionError, ConnectionLossError, NoNodeError, Tree, ensure_path
from metadata.store.znodes import ProducerIdBlock
from protocol.errors import ErrorCode, KafkaError
from runtime.randomness import Randomness

BLOCK_SIZE = 1_000
# No cluster that counts from 0 comes here; above is room for many that begin at random.
FAR_AWAY = 1 << 32
FAR_AWAY_END = 1 << 61
LOSSES_MAX = 5
PRODUCER_ID_MAX = (1 << 63) - 1


async def allocate_block(store: Tree, broker_id: int) -> ProducerIdBlock:
    """Take the next block for `broker_id`. The write's version makes two takers take two blocks.
    A write whose answer is lost costs a block and nothing else: the next one is taken. Raises ConnectionLossError when
    that happens too often."""
    losses = 0
    while True:
        try:
            data, stat = await store.get(znodes.PRODUCER_ID_BLOCK)
        except NoNodeError:
            await ensure_path(store, znodes.PRODUCER_ID_BLOCK)
            continue
        try:
            first = ProducerIdBlock.decode(data).end if data else 0
        except ValueError as error:  # to guess would be to give ids twice
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The last block of producer ids: {error}") from error
        if first > PRODUCER_ID_MAX - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given out.")
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


async def begin_elsewhere(store: Tree, broker_id: int, randomness: Randomness) -> None:
    """Give ids from now on that no other store gives, unless that is so already. For a broker alone whose logs are not all
    its store's: a topic that is made anew over such a log would take the records of a new producer for those that the log
    has of its namesake, acknowledge them and store nothing."""
    data, stat = await store.get(znodes.PRODUCER_ID_BLOCK)
    try:
        last = ProducerIdBlock.decode(data) if data else None
    except ValueError:
        return  # no id is given at all, see `allocate_block`
    if last is not None and last.end >= FAR_AWAY:
        return
    first = randomness.randrange(FAR_AWAY, FAR_AWAY_END) // BLOCK_SIZE * BLOCK_SIZE + BLOCK_SIZE
    await store.set(
        znodes.PRODUCER_ID_BLOCK, ProducerIdBlock(broker_id, first - BLOCK_SIZE, first).encode(), stat.version
    )


async def allocate(term: Term, broker_id: int, broker_epoch: int | None) -> ProducerIdBlock:
    """A block for a broker that asks; `broker_epoch` is None where it need not be checked. Raises KafkaError:
    BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
    if broker_epoch is not None:
        known = term.context.live_brokers.get(broker_id)
        if known is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if known.epoch != broker_epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    return await allocate_block(term.session, broker_id)


class ProducerIds:
    """A broker's supply. `allocate` gets the next block from the controller, wherever that is."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next_id(self) -> int:
        """Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while no block can be had: the client tries again."""
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
