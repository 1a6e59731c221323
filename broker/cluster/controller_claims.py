"""Verification of the sender of control requests: it must be the controller that the store names.

A control request carries its sender's id and controller epoch without proof. So the first request of an epoch is verified:
`/controller` contains the id and `/controller_epoch` the epoch, both written in one transaction by the elected broker. The
result is kept until a request with a higher epoch comes.

Rules: a lower epoch than the accepted one is stale, and so is the same epoch from another id. A request from a connection that
names this broker as its sender is refused: the controller of this broker calls in process (`accept_own_epoch`). If the store
does not respond in time, the higher epoch is accepted, as by Apache Kafka, which never verifies.
Invariants: the accepted epoch never decreases; while the store responds, no sender is accepted that it does not name.
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
STORE_TIMEOUT_S = 2.0
# The two nodes are not read atomically: they are read again to detect an election in between.
READS_MAX = 3


class ControllerClaims:
    """The accepted controller. `accept_own_epoch` is for the controller in this process, `is_controller` for all others."""

    def __init__(self, broker_id: int, store: Tree, *, timeout_s: float = STORE_TIMEOUT_S) -> None:
        self._broker_id = broker_id
        self._store = store
        self._timeout_s = timeout_s
        self._one_at_a_time = asyncio.Lock()
        self.controller_id = NO_CONTROLLER
        self.epoch = NO_EPOCH

    def accept_own_epoch(self, epoch: int) -> bool:
        """Accept the controller of this broker, elected with `epoch`; return whether no later one was accepted."""
        if epoch > self.epoch:
            self._accept(self._broker_id, epoch)
        return epoch == self.epoch and self.controller_id == self._broker_id

    def is_current(self, controller_id: int, epoch: int) -> bool:
        """Whether a sender is the accepted controller."""
        return epoch == self.epoch and controller_id == self.controller_id

    async def is_controller(self, controller_id: int, epoch: int) -> bool:
        """Whether a request from a connection is the controller's; a higher epoch is verified with the store."""
        if controller_id == self._broker_id:
            return False
        if epoch > self.epoch:
            async with self._one_at_a_time:
                if epoch > self.epoch:
                    await self._verify(controller_id, epoch)
        return self.is_current(controller_id, epoch)

    async def _verify(self, controller_id: int, epoch: int) -> None:
        await asyncio.sleep(0)  # a handler becomes a task at its first wait, and only a task can be timed out
        try:
            async with asyncio.timeout(self._timeout_s):
                named_id, named_epoch = await self._named(controller_id, epoch)
        except (StoreError, TimeoutError) as error:
            logger.warning(
                "controller accepted unverified, the store did not respond: controller=%d controller_epoch=%d error=%s",
                controller_id,
                epoch,
                type(error).__name__,
            )
            self._accept(controller_id, epoch)
            return
        if (named_id, named_epoch) == (controller_id, epoch):
            self._accept(controller_id, epoch)
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
        """Return (id, epoch) from the store. They are read again while they may belong to two elections."""
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

    def _accept(self, controller_id: int, epoch: int) -> None:
        assert epoch > self.epoch
        self.controller_id, self.epoch = controller_id, epoch
