"""Due order: of two records of one source partition the one that is due first stands first in the target's partition, and of
those that are due together the one that was there first; unless the relay could not know the one when it sent the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from protocol.topic_partition import TopicPartition
from tests.simulation.relays.expected import due_ms
from tests.simulation.relays.facts import Finals, Known, Send, Stored
from tests.simulation.relays.plan import PlannedRule

_Row = tuple[tuple[int, int], Stored, Send | None]


def out_of_order(finals: Finals, known: Known, rules: Mapping[str, PlannedRule]) -> Iterator[str]:
    sources = {each.value: each for records in finals.sources.values() for each in records}
    targets = {rule.target for rule in rules.values()}
    for key, records in finals.outputs.items():
        if key[0] not in targets:
            continue
        rows: dict[TopicPartition, list[_Row]] = {}
        for stored in records:
            source = sources.get(stored.value)
            due = None if source is None else due_ms(source, rules[source.topic])
            if source is not None and due is not None:
                rows.setdefault(source.key, []).append(((due, source.offset), source, known.send_of(stored)))
        for of_source in rows.values():
            yield from _inversions(key, of_source, known)


def _inversions(key: TopicPartition, rows: list[_Row], known: Known) -> Iterator[str]:
    for at, (order, source, _) in enumerate(rows):
        for before_order, before, send in rows[:at]:
            if before_order > order and send is not None and known.had_taken(source, send):
                yield (
                    f"order: in {key[0]}-{key[1]} {source}, due at {order[0]}, stands behind {before}, due at "
                    f"{before_order[0]}, sent by {send.life.name} at {send.at_s:.3f} s"
                )
                return
