"""The memory of requests that wait for their group: what is kept of them, and whether one more may wait.

A JoinGroup keeps its protocols and their metadata until it is answered, the leader's SyncGroup its assignment until that is
stored; a follower's SyncGroup keeps nothing. None of them holds the broker's budget of requests meanwhile.

Rules: no IO. New members are refused for want of room, and come again; whatever lets a rebalance end is admitted and counted,
past the limit if need be: known members that join again, and the leader's assignment. One that is larger than the limit is
admitted when nothing else waits. A request that waits is counted in its member: one that comes again replaces the first, and
a lost connection changes nothing, because the member stays.
Invariant: `used_bytes` is the sum of what members that wait for a join, and assignments that are not stored, were counted with.
Source: none; Apache Kafka keeps them without limit.
"""

from __future__ import annotations

# What a member that waits costs beside its metadata, and each of its protocols beside name and metadata.
MEMBER_BYTES = 1024
PROTOCOL_BYTES = 256


def size_of(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """The bytes that a member with these protocols is counted with."""
    return MEMBER_BYTES + sum(PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


class WaitingBytes:
    """One for all groups of a coordinator."""

    __slots__ = ("_is_refusing", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._is_refusing = False

    def has_room(self, size_bytes: int) -> bool:
        return not self.used_bytes or self.used_bytes + size_bytes <= self.limit_bytes

    def begins_to_refuse(self) -> bool:
        """Somebody is refused; answers whether that is news: nobody was since half of the room was free."""
        was_refusing, self._is_refusing = self._is_refusing, True
        return not was_refusing

    def change(self, size_bytes: int) -> None:
        """Count so many bytes more, or fewer when negative."""
        self.used_bytes += size_bytes
        assert self.used_bytes >= 0, "more bytes answered than waited"
        if self.used_bytes <= self.limit_bytes // 2:
            self._is_refusing = False
