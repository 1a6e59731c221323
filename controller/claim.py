"""The claim of a controller in an election: creating /controller and raising /controller_epoch, in one transaction.

Rules: the epoch is read before /controller, so that a later claim of another broker makes ours fail. After a claim without
response the nodes are read. The version of the epoch's node identifies the controller: every later write checks it.
Source: Kafka KafkaZkClient.registerControllerAndIncrementControllerEpoch; KIP-380.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from metadata.store import znodes
from metadata.store.port import (
    BadVersionError,
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    Session,
    SetData,
    Stat,
    Tree,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """A controller epoch, and the version of its node."""

    epoch: int
    version: int


async def current_epoch(session: Tree) -> ControllerEpoch:
    """Read the epoch; the first broker of a cluster creates the node."""
    try:
        data, stat = await session.get(znodes.CONTROLLER_EPOCH)
    except NoNodeError:
        first = znodes.encode_controller_epoch(znodes.INITIAL_CONTROLLER_EPOCH)
        try:
            await session.create(znodes.CONTROLLER_EPOCH, first)
        except NodeExistsError:
            logger.debug("another broker created the controller epoch")
        data, stat = await session.get(znodes.CONTROLLER_EPOCH)
    return ControllerEpoch(znodes.decode_controller_epoch(data), stat.version)


async def claim(session: Session, node: bytes, before: ControllerEpoch, *, has_node: bool) -> ControllerEpoch | None:
    """Claim the election; return the new epoch, or None if another broker was first. `has_node`: /controller is already of
    this session. Raises ConnectionLossError when the outcome is unknown."""
    controller_node = SetData(znodes.CONTROLLER, node) if has_node else Create(znodes.CONTROLLER, node, ephemeral=True)
    epoch = before.epoch + 1
    raised = SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), before.version)
    try:
        _, written = await session.multi([controller_node, raised])
    except (NodeExistsError, BadVersionError, NoNodeError):
        return None
    except ConnectionLossError:
        won = await _won(session, epoch)
        if won is None:
            raise
        return won
    assert isinstance(written, Stat)
    return ControllerEpoch(epoch, written.version)


async def _won(session: Session, epoch: int) -> ControllerEpoch | None:
    """Return the epoch if a claim without response was successful."""
    stat = await session.exists(znodes.CONTROLLER)
    now = await current_epoch(session)
    is_ours = stat is not None and stat.ephemeral_owner == session.session_id
    return now if is_ours and now.epoch == epoch else None
