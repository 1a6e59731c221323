"""Taking the controller's seat: creating /controller and raising /controller_epoch, in one transaction.

Rules: the epoch is read before anybody looks who sits there, so that a claim made since then makes ours fail. A claim
without an answer is looked up. Whoever holds the epoch node's version holds the seat: every later write is checked
against it.
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
    """`version` is that of the node."""

    epoch: int
    version: int


async def current_epoch(session: Tree) -> ControllerEpoch:
    """The first broker of a cluster makes the node."""
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


async def claim(session: Session, node: bytes, before: ControllerEpoch, *, is_seated: bool) -> ControllerEpoch | None:
    """The epoch that was won; None when somebody else moved first. `is_seated`: /controller is this session's already.
    Raises ConnectionLossError when nobody can tell."""
    seat = SetData(znodes.CONTROLLER, node) if is_seated else Create(znodes.CONTROLLER, node, ephemeral=True)
    epoch = before.epoch + 1
    raised = SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), before.version)
    try:
        _, written = await session.multi([seat, raised])
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
    """After a claim without an answer."""
    stat = await session.exists(znodes.CONTROLLER)
    now = await current_epoch(session)
    is_ours = stat is not None and stat.ephemeral_owner == session.session_id
    return now if is_ours and now.epoch == epoch else None
