"""The fourth goal: as many preferred leaders on each broker. Only the order of replicas changes, so nothing is copied. Pure.

A broker with too many hands leaders on to one with too few directly or through others that have a replica of both: along the
shortest way, until there is none.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import pairwise

from tools.balance.layout import Key, Layout


def even_out_leaders(layout: Layout) -> None:
    handing = _Handing(layout)
    while (way := handing.best_way()) is not None:
        for source, target in pairwise(way):
            handing.hand_on(source, target)


class _Handing:
    """Which leaders each broker can hand on to which other."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._takers = set(layout.takers)
        self._choices: dict[int, dict[int, set[Key]]] = defaultdict(lambda: defaultdict(set))
        for key in layout.replicas:
            self._offer(key)

    def best_way(self) -> list[int] | None:
        """Return the brokers from one that leads too much to one that leads two less at least; None when there are none."""
        leaders = self._layout.leaders
        for source in sorted(self._takers, key=lambda broker: (-leaders[broker], broker)):
            before = self._reachable(source)
            target = min(before, key=lambda broker: (leaders[broker], broker))
            if leaders[source] - leaders[target] < 2:
                continue
            way = [target]
            while way[-1] != source:
                way.append(before[way[-1]])
            return way[::-1]
        return None

    def hand_on(self, source: int, target: int) -> None:
        key = min(self._choices[source][target])
        self._withdraw(key)
        self._layout.lead(key, target)
        self._offer(key)

    def _reachable(self, source: int) -> dict[int, int]:
        """Return for each broker that can get a leader the one from which it comes."""
        before, waiting = {source: source}, deque((source,))
        while waiting:
            broker = waiting.popleft()
            for other in sorted(self._choices[broker]):
                if other not in before and self._choices[broker][other]:
                    before[other] = broker
                    waiting.append(other)
        return before

    def _offer(self, key: Key) -> None:
        for leader, other in self._pairs(key):
            self._choices[leader][other].add(key)

    def _withdraw(self, key: Key) -> None:
        for leader, other in self._pairs(key):
            self._choices[leader][other].discard(key)

    def _pairs(self, key: Key) -> list[tuple[int, int]]:
        replicas = self._layout.replicas[key]
        if not self._layout.loads[key].is_movable or replicas[0] not in self._takers:
            return []
        return [(replicas[0], other) for other in replicas[1:] if other in self._takers]
