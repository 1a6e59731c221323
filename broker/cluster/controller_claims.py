"""Who may speak as the controller: the one that the store names.

A control request carries its sender's id and controller epoch, and nothing proves them. So the first one of an epoch is
looked up: `/controller` holds the id and `/controller_epoch` the epoch, both written in one transaction by whoever was
elected. What was found is remembered until a higher epoch comes.

Rules: an older epoch than the one believed is stale, and so is the same one from another id. A request that claims to
come from this very broker does not: its own controller speaks in process (`own_term`). A store that cannot be reached
in time decides nothing: the higher epoch wins then, as in Apache Kafka, which never asks.
Invariants: the epoch believed never falls; with the store at hand no sender is believed that it does not name.
Source: Kafka ReplicaManager.controllerEpoch, KafkaApis.handleUpdateMetadataRequest; KIP-380.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.port import NoNodeError, StoreError

if TYPE_CHECKING:
    from metadata.store.port import Tree

logger = logging.getLogger(__name__)

NO_CONTROLLER = -1
NO_EPOCH = -1
STORE_PATIENCE_S = 2.0
# Two nodes are not read at one instant: an election in between is seen by reading them again.
READS_MAX = 3


class ControllerClaims:
    """What this broker believes. `own_term` is for the controller in this process, `is_believed` for all others."""

    def __init__(self, broker_id: int, store: Tree, *, patience_s: float = STORE_PATIENCE_S) -> None:
        self._broker_id = broker_id
        self._store = store
        self._patience_s = patience_s
        self._one_at_a_time = asyncio.Lock()
        self.controller_id = NO_CONTROLLER
        self.epoch = NO_EPOCH

    def own_term(self, epoch: int) -> bool:
        """Our own controller speaks: it has just won its election in the store. Whether it still counts."""
        if epoch > self.epoch:
            self._believe(self._broker_id, epoch)
        return epoch == self.epoch and self.controller_id == self._broker_id

    def is_current(self, controller_id: int, epoch: int) -> bool:
        """Whether a sender that was believed still is."""
        return epoch == self.epoch and controller_id == self.controller_id

    async def is_believed(self, controller_id: int, epoch: int) -> bool:
        """Whether a request that came over a connection is the controller's."""
        if controller_id == self._broker_id:
            return False
        if epoch > self.epoch:
            async with self._one_at_a_time:
                if epoch > self.epoch:
                    await self._look_up(controller_id, epoch)
        return self.is_current(controller_id, epoch)

    async def _look_up(self, controller_id: int, epoch: int) -> None:
        await asyncio.sleep(0)  # a handler becomes a task at its first wait, and only a task can be timed out
        try:
            async with asyncio.timeout(self._patience_s):
                named_id, named_epoch = await self._named(controller_id, epoch)
        except (StoreError, TimeoutError) as error:
            logger.warning(
                "controller accepted unverified, the store did not respond: controller=%d controller_epoch=%d error=%s",
                controller_id,
                epoch,
                type(error).__name__,
            )
            self._believe(controller_id, epoch)
            return
        if (named_id, named_epoch) == (controller_id, epoch):
            self._believe(controller_id, epoch)
            return
        logger.warning(
            "control request refused, the store names another controller: controller=%d "
            "controller_epoch=%d stored_controller=%d stored_controller_epoch=%d",
            controller_id,
            epoch,
            named_id,
            named_epoch,
        )

    async def _named(self, controller_id: int, epoch: int) -> tuple[int, int]:
        """(id, epoch) as the store has them. Reads again while they seem to belong to two elections."""
        await self._store.sync(znodes.CONTROLLER)
        found = (NO_CONTROLLER, NO_EPOCH)
        for _ in range(READS_MAX):
            before, found = found, (await self._controller_id(), await self._controller_epoch())
            if found in ((controller_id, epoch), before):
                break
        return found

    async def _controller_id(self) -> int:
        try:
            data, _ = await self._store.get(znodes.CONTROLLER)
            return znodes.decode_controller(data)
        except (NoNodeError, ValueError):
            return NO_CONTROLLER

    async def _controller_epoch(self) -> int:
        try:
            data, _ = await self._store.get(znodes.CONTROLLER_EPOCH)
            return znodes.decode_controller_epoch(data)
        except (NoNodeError, ValueError):
            return NO_EPOCH

    def _believe(self, controller_id: int, epoch: int) -> None:
        assert epoch > self.epoch
        self.controller_id, self.epoch = controller_id, epoch
