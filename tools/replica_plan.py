"""Where the replicas of partitions shall be: on as many racks as there are, then evenly on brokers, then leaders evenly, with
few moves. Pure.

Rules: a replica that may stay stays. The first replica is the preferred leader. Weights say how heavy a partition is (bytes,
rate); without them all weigh the same.
Invariant: no broker has two replicas of a partition, and no move makes two racks of a partition one.
Source: Kafka AdminUtils.assignReplicasToBrokersRackAware, Cruise Control's goals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

Key = tuple[str, int]
Assignment = dict[Key, list[int]]


class PlanError(ValueError):
    """No plan does what was asked."""


def spread(
    current: Mapping[Key, Sequence[int]],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
    weights: Mapping[Key, float] | None = None,
) -> Assignment:
    """Return the replicas of each partition on the brokers of `racks` (broker to rack). Raises PlanError."""
    placement = _Placement(current, racks, weights or {})
    for key, replicas in current.items():
        placement.keep(key, list(replicas), len(replicas) if replication_factor is None else replication_factor)
    placement.even_out()
    placement.choose_leaders()
    return placement.replicas


class _Placement:
    """The plan while it is made, and how much each broker has."""

    def __init__(
        self, current: Mapping[Key, Sequence[int]], racks: Mapping[int, str | None], weights: Mapping[Key, float]
    ) -> None:
        self._current = current
        self._racks = {broker: rack if rack is not None else "" for broker, rack in racks.items()}
        self._weights = weights
        self._load: dict[int, float] = dict.fromkeys(self._racks, 0.0)
        self.replicas: Assignment = {}

    def keep(self, key: Key, replicas: list[int], count: int) -> None:
        """Keep what may stay, and fill up. Raises PlanError."""
        if count > len(self._racks):
            raise PlanError(
                f"{count} replicas of {key[0]}-{key[1]} need as many brokers, and there are {len(self._racks)}"
            )
        kept: list[int] = []
        for broker in replicas:
            if broker in self._racks and len(kept) < count:
                kept.append(broker)
        while len(kept) < count:
            kept.append(
                min((broker for broker in self._racks if broker not in kept), key=lambda each: self._cost(each, kept))
            )
        self._separate(kept)
        self.replicas[key] = kept
        for broker in kept:
            self._load[broker] += self._weight(key)

    def even_out(self) -> None:
        """Move replicas from the fullest brokers to the emptiest, as long as the difference shrinks."""
        while True:
            move = self._best_move()
            if move is None:
                return
            key, source, target = move
            self.replicas[key] = [target if broker == source else broker for broker in self.replicas[key]]
            self._load[source] -= self._weight(key)
            self._load[target] += self._weight(key)

    def choose_leaders(self) -> None:
        """Put the broker first in each partition that leads the fewest; one that leads already stays when it is not worse."""
        leaders: Counter[int] = Counter(replicas[0] for replicas in self.replicas.values() if replicas)
        changed = True
        while changed:
            changed = False
            for key, replicas in self.replicas.items():
                first = replicas[0]
                best = min(replicas, key=lambda broker: (leaders[broker], broker != first))
                if leaders[first] > leaders[best] + 1:
                    self.replicas[key] = [best, *(broker for broker in replicas if broker != best)]
                    leaders[first] -= 1
                    leaders[best] += 1
                    changed = True

    def _weight(self, key: Key) -> float:
        return self._weights.get(key, 1.0)

    def _cost(self, broker: int, kept: Sequence[int]) -> tuple[int, float, int]:
        """Of a replica more on `broker`, beside those that are kept: the same rack is the worst."""
        rack = self._racks[broker]
        return sum(self._racks[other] == rack for other in kept), self._load[broker], broker

    def _separate(self, kept: list[int]) -> None:
        """Replace replicas that share a rack while another rack has none."""
        for position in range(len(kept) - 1, -1, -1):
            others = kept[:position] + kept[position + 1 :]
            if not any(self._racks[other] == self._racks[kept[position]] for other in others):
                continue
            candidates = [broker for broker in self._racks if broker not in kept]
            if candidates:
                best = min(candidates, key=lambda broker: self._cost(broker, others))
                if self._cost(best, others)[0] < self._cost(kept[position], others)[0]:
                    kept[position] = best

    def _best_move(self) -> tuple[Key, int, int] | None:
        """Return the move that evens out most of the largest difference; None when no move makes it smaller."""
        by_load = sorted(self._load, key=lambda broker: (self._load[broker], broker))
        for source in reversed(by_load):
            for target in by_load:
                gap = self._load[source] - self._load[target]
                if gap <= 0:
                    break
                best: tuple[float, bool, Key] | None = None
                for key, replicas in self.replicas.items():
                    weight = self._weight(key)
                    if source not in replicas or target in replicas or not 0 < weight < gap:
                        continue
                    if not self._keeps_racks(replicas, source, target):
                        continue
                    # What is moved anyhow, or comes back to where it is, costs nothing more.
                    is_new = target not in self._current[key]
                    rank = (abs(gap / 2 - weight), is_new, key)
                    best = rank if best is None else min(best, rank)
                if best is not None:
                    return best[2], source, target
        return None

    def _keeps_racks(self, replicas: Sequence[int], source: int, target: int) -> bool:
        others = [broker for broker in replicas if broker != source]
        return self._cost(target, others)[0] <= self._cost(source, others)[0]
