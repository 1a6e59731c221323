"""The requests that wait in a classic group, JoinGroup and SyncGroup, when nobody will answer them there.

Rules: no IO.
"""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.responses import join_error, sync_error
from coordinator.runtime.contract import Outbox
from protocol.errors import ErrorCode


def refuse_waiting(group: ClassicGroup, error: ErrorCode, outbox: Outbox) -> None:
    """Answer all requests that wait in `group` with `error`."""
    for member in group.members.values():
        joining = group.take_joining(member)
        if joining is not None:
            outbox.respond(joining, join_error(member.member_id, error))
        syncing, member.syncing = member.syncing, None
        if syncing is not None:
            outbox.respond(syncing, sync_error(error))
