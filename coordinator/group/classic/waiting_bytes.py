"""The memory of requests that wait for their group: its size, and whether one more request may wait.

A JoinGroup keeps its protocols and their metadata until its response, the leader's SyncGroup its assignment until that is
stored; a follower's SyncGroup keeps nothing. None of them counts in the broker's budget of requests meanwhile.

Rules: no IO. New members are refused when the limit is reached, and retry; requests that let a rebalance end are admitted and
counted, beyond the limit if necessary: known members that rejoin, and the leader's assignment. A request that is larger than
the limit is admitted when no other waits. A waiting request is counted in its member: a repeated one replaces the first, and
a lost connection changes nothing, because the member stays.
Invariant: `used_bytes` is the sum of the counted sizes of parked joins and of assignments that are being stored.
Source: none; Apache Kafka keeps them without limit.
"""

from __future__ import annotations

# The memory of a waiting member beside its metadata, and of each of its protocols beside name and metadata.
MEMBER_BYTES = 1024
PROTOCOL_BYTES = 256


def size_of(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """The bytes that count for a member with these protocols."""
    return MEMBER_BYTES + sum(PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


class WaitingBytes:
    """One instance for all groups of a coordinator."""

    __slots__ = ("_is_refusing", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._is_refusing = False

    def has_room(self, size_bytes: int) -> bool:
        return not self.used_bytes or self.used_bytes + size_bytes <= self.limit_bytes

    def begins_to_refuse(self) -> bool:
        """Record a refusal. Returns whether it is the first since at least half of the limit was free."""
        was_refusing, self._is_refusing = self._is_refusing, True
        return not was_refusing

    def change(self, size_bytes: int) -> None:
        """Add `size_bytes`, which may be negative."""
        self.used_bytes += size_bytes
        assert self.used_bytes >= 0, "more bytes released than counted"
        if self.used_bytes <= self.limit_bytes // 2:
            self._is_refusing = False
