"""The names of one relay's topics and group, all of which begin with its name: one prefixed ACL covers them. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.key_hashes import by_murmur2
from protocol.topic_partition import TopicPartition

BUCKET_TIERS: Final = ("hour", "day", "month", "year")


class RelayNames(NamedTuple):
    """`name` is the setting `barnabas.relay.name`, which is the id of the group, too."""

    name: str

    @property
    def rules(self) -> str:
        """The compacted topic of the rules: key = source topic, value = the rule in JSON."""
        return f"{self.name}-rules"

    @property
    def log(self) -> str:
        """The compacted topic of the index: what was taken in, and what is done."""
        return f"{self.name}-log"

    @property
    def dead_letters(self) -> str:
        """The topic for dead letters of rules that name none."""
        return f"{self.name}-dead"

    @property
    def buckets(self) -> tuple[str, ...]:
        """The topics in which records wait that are due later, in the order of their tiers."""
        return tuple(f"{self.name}-{tier}" for tier in BUCKET_TIERS)

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics of the relay."""
        return (self.rules, self.log, *self.buckets, self.dead_letters)


def log_partition(source: TopicPartition, count: int) -> int:
    """Return the partition of the log and of the buckets, of `count`, for what waits of a source partition."""
    return by_murmur2(f"{source[0]}-{source[1]}".encode(), count)
