"""The first goals: nothing on drained brokers, replicas of a partition on many racks, as many on each broker. Pure.

Source: Kafka AdminUtils.assignReplicasToBrokersRackAware.
"""

from __future__ import annotations

from collections import Counter

from tools.balance.layout import Key, Layout, crowding


def drain(layout: Layout) -> None:
    """Replace all replicas on drained brokers, the largest first. One for which no broker is left stays, because its partition
    has as many replicas as there are brokers that may have them; another one leads it, if there is one."""
    found = [(-layout.loads[key].bytes, key, broker) for key, replicas in layout.replicas.items()
             for broker in replicas if broker in layout.drained and layout.loads[key].is_movable]  # fmt: skip
    for _, key, broker in sorted(found):
        target = _best_target(layout, key, broker)
        if target is not None:
            layout.replace(key, broker, target)
        elif layout.leader(key) == broker and layout.takers:
            layout.lead(key, min(layout.takers, key=lambda taker: (layout.leaders[taker], taker)))


def spread_over_racks(layout: Layout) -> None:
    """Replace replicas that share a rack while another rack has fewer."""
    for key in sorted(layout.replicas):
        if not layout.loads[key].is_movable:
            continue
        while (better := _less_crowded(layout, key)) is not None:
            layout.replace(key, *better)


def even_out_replicas(layout: Layout) -> None:
    """Move replicas from the brokers with the most to those with the fewest, until the numbers differ by one."""
    while (move := _best_move(layout)) is not None:
        layout.replace(*move)


def _best_target(layout: Layout, key: Key, source: int) -> int | None:
    others = [broker for broker in layout.replicas[key] if broker != source]
    racks = Counter(map(layout.rack, others))
    return min(
        (broker for broker in layout.takers if broker not in others),
        default=None,
        # The crowding of all racks grows with the number in the one that gets a replica.
        key=lambda broker: (racks[layout.rack(broker)], layout.count[broker], layout.bytes[broker], broker),
    )


def _less_crowded(layout: Layout, key: Key) -> tuple[int, int] | None:
    """Return the broker that gives a replica of `key` and the one that gets it; None when no other spread is better."""
    before = layout.crowding(key)
    best: tuple[int, int, int, int] | None = None
    # The last replica goes first: it is the least likely to lead.
    for source in reversed(layout.replicas[key]):
        target = _best_target(layout, key, source) if source in layout.takers else None
        if target is None:
            continue
        after = crowding(Counter(layout.rack(target if each == source else each) for each in layout.replicas[key]))
        if after < before:
            rank = (after, -layout.count[source], source, target)
            best = rank if best is None or rank[:2] < best[:2] else best
    return None if best is None else best[2:]


def _best_move(layout: Layout) -> tuple[Key, int, int] | None:
    by_count = sorted(layout.takers, key=lambda broker: (layout.count[broker], broker))
    for source in reversed(by_count):
        for target in by_count:
            if layout.count[source] - layout.count[target] < 2:
                break
            key = _choose(layout, source, target)
            if key is not None:
                return key, source, target
    return None


def _choose(layout: Layout, source: int, target: int) -> Key | None:
    """Return the partition whose size is nearest to what the target lacks in bytes for each replica that it lacks."""
    missing = max((layout.count[source] - layout.count[target]) // 2, 1)
    wanted_bytes = max(layout.bytes[source] - layout.bytes[target], 0) // 2 // missing
    return next(layout.gives(source, target, wanted_bytes), None)
