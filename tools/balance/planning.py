"""What a balance would change: the plan of a survey, what each broker has and would have, and what stays as it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.command_line.failure import Failure
from runtime.texts import count_text
from tools.balance.goals import GOALS, THRESHOLD_PERCENT, distances, short_of_racks
from tools.balance.layout import Key, Layout
from tools.balance.planner import Move, balance
from tools.balance.survey import Survey

_NAMED = 5


@dataclass(frozen=True, slots=True)
class _View:
    """What is shown of a layout."""

    brokers: dict[int, dict[str, Any]]
    distances: tuple[int, ...]
    short_of_racks: int

    @classmethod
    def of(cls, seen: Survey, layout: Layout, percent: int) -> _View:
        return cls(_states(seen, layout), distances(layout, percent), short_of_racks(layout))


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """`layout` is what the moves make. `needed` are the partitions that drained brokers keep, by broker."""

    seen: Survey
    layout: Layout
    moves: list[Move]
    needed: Mapping[int, Sequence[Key]]
    before: _View
    after: _View

    @property
    def copied_bytes(self) -> int:
        return sum(move.copied_bytes for move in self.moves)

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        return {
            "brokers": [
                {
                    "broker": broker,
                    "rack": self.seen.racks.get(broker),
                    "is_there": broker in self.seen.racks,
                    "before": state,
                    "after": self.after.brokers[broker],
                }
                for broker, state in self.before.brokers.items()
            ],
            "goals": [
                {"goal": goal, "before": first, "after": second}
                for goal, first, second in zip(GOALS, self.before.distances, self.after.distances, strict=True)
            ],
            "partitions_short_of_racks": {"before": self.before.short_of_racks, "after": self.after.short_of_racks},
            "needed": [
                {"topic": topic, "partition": index, "broker": broker}
                for broker, keys in self.needed.items()
                for topic, index in keys
            ],
            "copied_bytes": self.copied_bytes,
            "moves": [
                {
                    "topic": move.key[0],
                    "partition": move.key[1],
                    "from": list(move.before),
                    "to": list(move.after),
                    "copied_bytes": move.copied_bytes,
                }
                for move in self.moves
            ],
        }

    def notes(self) -> list[str]:
        """Return sentences about what the plan does not change."""
        return [*what_stays(self.seen, self.layout), *what_is_needed(self.layout, self.needed)]


def layout_of(seen: Survey, drained: frozenset[int], kept: frozenset[int]) -> Layout:
    """Return what is to be evened out: without brokers that are `drained`, and without touching those that are `kept`. Raises
    Failure."""
    known = seen.racks.keys() | {broker for load in seen.loads.values() for broker in load.replicas}
    unknown = (drained | kept) - known
    if unknown:
        raise Failure(f"there is no broker {min(unknown)} (`barnabas brokers list` shows the brokers)")
    if not seen.racks.keys() - drained - kept:
        raise Failure("no broker is left that could take replicas")
    return Layout(seen.loads, seen.racks, drained, kept)


def plan_balance(seen: Survey, layout: Layout, percent: int = THRESHOLD_PERCENT) -> BalancePlan:
    """Even a layout out, and return what that changes."""
    before = _View.of(seen, layout, percent)
    moves = balance(layout, percent)
    needed = {broker: keys for broker in sorted(layout.drained) if (keys := layout.needed(broker))}
    return BalancePlan(seen, layout, moves, needed, before, _View.of(seen, layout, percent))


def what_stays(seen: Survey, layout: Layout) -> Iterator[str]:
    """Say what the plan does not change; `layout` is what it makes."""
    for broker in sorted(layout.drained):
        fixed = layout.count[broker] - len(layout.needed(broker))
        if fixed:
            kept = count_text(fixed, "replica")
            yield (f"broker {broker} keeps {kept}, of partitions without a leader or of topics that are not to be moved: "
                        "it is still needed")  # fmt: skip
    if seen.leaderless:
        stay = count_text(len(seen.leaderless), "partition", "has no leader and stays", "have no leader and stay")
        yield (f"{stay}: `barnabas cluster health` tells more")
    for broker, count in seen.gone.items():
        if broker not in layout.drained:
            yield (f"broker {broker} is gone and keeps its {count_text(count, 'replica')}: start it, or give them to "
                        f"others by --drain {broker}")  # fmt: skip
    if seen.led_by_others:
        led = count_text(len(seen.led_by_others), "partition", "is", "are")
        yield (f"{led} led by another than their preferred leader, which is counted here: `barnabas partitions elect` "
                    "returns them")  # fmt: skip


def what_is_needed(layout: Layout, needed: Mapping[int, Sequence[Key]]) -> Iterator[str]:
    """Say what drained brokers keep because no other can have it, and the two ways on."""
    for broker, keys in needed.items():
        names = ", ".join(f"{topic}-{index}" for topic, index in keys[:_NAMED])
        stay = count_text(len(keys), "replica", "stays", "stay")
        yield (f"broker {broker} is still needed: {stay} on it ({names}{' ...' if len(keys) > _NAMED else ''}), because "
                    "every other broker that may have one has one already")  # fmt: skip
    if needed:
        topics, left = sorted({topic for keys in needed.values() for topic, _ in keys}), layout.takers
        some = " ".join(topics[:_NAMED]) + (" ..." if len(topics) > _NAMED else "")
        plan = f"barnabas partitions plan {some} --brokers {','.join(map(str, left))} --replication-factor {len(left)}"
        yield (f"either start another broker, and drain again; or give these topics fewer replicas: `{plan} > plan.json`, "
                    "then `barnabas partitions reassign --plan plan.json --execute`")  # fmt: skip


def _states(seen: Survey, layout: Layout) -> dict[int, dict[str, Any]]:
    """Return what each broker has, also one that is gone and has replicas."""
    known = seen.racks.keys() | {broker for load in seen.loads.values() for broker in load.replicas}
    return {
        broker: {
            "replicas": layout.count[broker],
            "leaders": layout.leaders[broker],
            "bytes": layout.bytes[broker],
            "records_per_s": layout.rate[broker] / 1000,
        }
        for broker in sorted(known)
    }
