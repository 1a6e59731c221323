"""Which broker has which replicas, and how much that is, while a plan is made. Pure.

Rules: a broker takes replicas, gives all that it has (it is drained), or neither (it is excluded, or gone: it keeps what it has
and gets nothing more). What a goal counts are the brokers that take. A partition that may not be moved stays, and counts.
Invariant: no broker has two replicas of a partition; sums by broker are those of `replicas`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """A partition as it is. The first of `replicas` is the preferred leader. `bytes` is the size of one replica, `rate` how
    many records a second are written to it, times 1000."""

    replicas: tuple[int, ...]
    bytes: int = 0
    rate: int = 0
    is_movable: bool = True


class Layout:
    """`racks` has every broker that is there, with its rack; brokers in `drained` give all, those in `kept` neither give nor
    take."""

    def __init__(
        self,
        loads: Mapping[Key, PartitionLoad],
        racks: Mapping[int, str | None],
        drained: frozenset[int] = frozenset(),
        kept: frozenset[int] = frozenset(),
    ) -> None:
        self.loads = loads
        self.drained = drained
        self.takers = tuple(sorted(racks.keys() - drained - kept))
        self._racks = {broker: rack or "" for broker, rack in racks.items()}
        self._taking_racks = sorted({self._racks[broker] for broker in self.takers})
        self.replicas: dict[Key, list[int]] = {}
        self.count: Counter[int] = Counter()
        self.leaders: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()
        self.rate: Counter[int] = Counter()
        self._by_bytes: dict[int, list[tuple[int, Key]]] = defaultdict(list)
        self._led: dict[int, set[Key]] = defaultdict(set)
        # How many partitions of a broker can go to another rack: where it is none, nobody has to look for one.
        self._outgoing: Counter[tuple[int, str]] = Counter()
        for key, load in sorted(loads.items()):
            self.replicas[key] = list(load.replicas)
            for broker in load.replicas:
                self._add(key, broker)
            self._count_outgoing(key, 1)
            if load.replicas:
                self._add_leader(key, load.replicas[0])

    # --- changes ---

    def replace(self, key: Key, source: int, target: int) -> None:
        """Give the replica of `source` to `target`, with its place in the order."""
        replicas = self.replicas[key]
        place = replicas.index(source)
        self._count_outgoing(key, -1)
        replicas[place] = target
        self._count_outgoing(key, 1)
        self._remove(key, source)
        self._add(key, target)
        if place == 0:
            self._remove_leader(key, source)
            self._add_leader(key, target)

    def lead(self, key: Key, broker: int) -> None:
        """Make one of the replicas the preferred leader; the others keep their order."""
        replicas = self.replicas[key]
        self._remove_leader(key, replicas[0])
        replicas.remove(broker)
        replicas.insert(0, broker)
        self._add_leader(key, broker)

    # --- what is where ---

    def needed(self, broker: int) -> list[Key]:
        """Return the partitions that a drained broker keeps though they may be moved: no other broker can have the replica."""
        return [key for _, key in sorted(self._by_bytes[broker], key=lambda row: row[1])]

    def leader(self, key: Key) -> int:
        return self.replicas[key][0]

    def led_by(self, broker: int) -> list[Key]:
        """Return the partitions that may be moved and have their preferred leader here, in order."""
        return sorted(key for key in self._led[broker] if self.loads[key].is_movable)

    def nearest(self, broker: int, wanted_bytes: int) -> Iterator[Key]:
        """Return the partitions of a broker that may be moved, those first whose size is nearest to `wanted_bytes`."""
        rows = self._by_bytes[broker]
        right = bisect_left(rows, wanted_bytes, key=lambda row: row[0])
        left = right - 1
        while left >= 0 or right < len(rows):
            if left < 0 or (right < len(rows) and rows[right][0] - wanted_bytes < wanted_bytes - rows[left][0]):
                yield rows[right][1]
                right += 1
            else:
                yield rows[left][1]
                left -= 1

    def rack(self, broker: int) -> str:
        """Return the rack. Brokers without one share it; one that is gone is nowhere."""
        rack = self._racks.get(broker)
        return f"\0{broker}" if rack is None else rack

    def racks(self, key: Key) -> Counter[str]:
        """Return how many replicas each rack has."""
        return Counter(map(self.rack, self.replicas[key]))

    def crowding(self, key: Key) -> int:
        """Return how crowded the racks of a partition are."""
        return crowding(self.racks(key))

    def gives(self, source: int, target: int, wanted_bytes: int) -> Iterator[Key]:
        """Return what `source` can give to `target` without being worse spread over racks, those first whose size is nearest to
        `wanted_bytes`."""
        rack, other = self.rack(source), self.rack(target)
        if rack != other and not self._outgoing[source, other]:
            return
        for key in self.nearest(source, wanted_bytes):
            if target not in self.replicas[key] and (rack == other or _has_room(self.racks(key), rack, other)):
                yield key

    def can_give(self, key: Key, source: int, target: int) -> bool:
        """Return whether a replica can go from `source` to `target` without being worse spread over racks."""
        if target in self.replicas[key]:
            return False
        rack, other = self.rack(source), self.rack(target)
        return rack == other or _has_room(self.racks(key), rack, other)

    def _count_outgoing(self, key: Key, number: int) -> None:
        if not self.loads[key].is_movable:
            return
        racks = self.racks(key)
        for broker in self.replicas[key]:
            rack = self.rack(broker)
            for other in self._taking_racks:
                if other != rack and _has_room(racks, rack, other):
                    self._outgoing[broker, other] += number

    def _add(self, key: Key, broker: int) -> None:
        load = self.loads[key]
        self.count[broker] += 1
        self.bytes[broker] += load.bytes
        if load.is_movable:
            insort(self._by_bytes[broker], (load.bytes, key))

    def _remove(self, key: Key, broker: int) -> None:
        load = self.loads[key]
        self.count[broker] -= 1
        self.bytes[broker] -= load.bytes
        rows = self._by_bytes[broker]
        del rows[bisect_left(rows, (load.bytes, key))]

    def _add_leader(self, key: Key, broker: int) -> None:
        self.leaders[broker] += 1
        self.rate[broker] += self.loads[key].rate
        self._led[broker].add(key)

    def _remove_leader(self, key: Key, broker: int) -> None:
        self.leaders[broker] -= 1
        self.rate[broker] -= self.loads[key].rate
        self._led[broker].remove(key)


def crowding(racks: Mapping[str, int]) -> int:
    """Return the sum of the squares of the numbers of replicas by rack: the smallest is the best spread."""
    return sum(number * number for number in racks.values())


def _has_room(racks: Mapping[str, int], rack: str, other: str) -> bool:
    """Return whether a replica can go from one rack to another, and none is more crowded than one was before."""
    return racks.get(other, 0) < racks.get(rack, 0)
