"""What is committed for a group, and by whom. Pure."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class GroupMembership(NamedTuple):
    """Who commits offsets: a member of a generation, or nobody in particular. The member of a consumer group has an epoch where
    that of a classic group has a generation."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None
