"""Never lost, never twice: each record of a source topic is delivered once or is a dead letter once, unless a later record
with its id has replaced or cancelled it; and what came too late changes nothing.

The records with one id are followed in the order of the source. One that waits is delivered, or the next one takes its place;
one that was delivered makes all later ones too late, as long as it is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.simulation.relays.expected import due_ms, is_cancellation
from tests.simulation.relays.facts import (
    EXPIRES_AT,
    ID,
    REASON,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
    Finals,
    Known,
    Stored,
)
from tests.simulation.relays.plan import DEAD, RESULTS, PlannedRule

TOO_LATE, CANCELLED, REPLACED, UNKNOWN = "too late", "cancelled", "replaced", "unknown"


@dataclass(slots=True)
class Outcomes:
    """What became of the records of all source topics. `forgets`: delivered ids may be forgotten, as clocks were set."""

    finals: Finals
    known: Known
    rules: Mapping[str, PlannedRule]
    forgets: bool = False
    unsettled: list[Stored] = field(default_factory=list)
    """Records of which nothing has come yet."""
    wrong: list[str] = field(default_factory=list)
    delivered: dict[str, list[Stored]] = field(default_factory=dict)
    dead: dict[str, list[Stored]] = field(default_factory=dict)
    results: dict[tuple[str, int, int], list[str]] = field(default_factory=dict)
    met: dict[str, int] = field(default_factory=dict)
    """How often each outcome was met."""

    def judge(self, *, fragile: str | None = None) -> None:
        """`fragile` is the source whose target was deleted, with all that was delivered to it."""
        finals, rules = self.finals, self.rules
        self.delivered = finals.by_value(*(each.target for each in rules.values()))
        self.dead = finals.by_value(DEAD)
        for key, stored in finals.outputs.items():
            if key[0] == RESULTS:
                for each in stored:
                    self.results.setdefault(_source_of(each), []).append(each.value)
        known: set[str] = set()
        for (topic, _), records in finals.sources.items():
            known.update(each.value for each in records)
            if topic == fragile:
                for each in records:
                    self._count_once(each, 0)
            else:
                self._partition(records, rules[topic])
        for value, stored in {**self.delivered, **self.dead}.items():
            if value not in known:
                self.wrong.append(f"never sent: {stored[0]} is no committed record of a source topic")

    def _partition(self, records: list[Stored], rule: PlannedRule) -> None:
        chains: dict[str, list[Stored]] = {}
        for each in records:
            id_ = each.header(ID)
            if id_ is None or due_ms(each, rule) is None:
                self._alone(each, rule)
            else:
                chains.setdefault(id_, []).append(each)
        for chain in chains.values():
            self._chain(chain, rule)

    # --- one record ---

    def _count_once(self, source: Stored, least: int) -> None:
        """It is delivered or a dead letter, at least so often in all."""
        copies = [*self.delivered.get(source.value, ()), *self.dead.get(source.value, ())]
        if len(copies) > 1:
            self.wrong.append(
                f"twice: {source} is {' and '.join(f'{each.topic}-{each.partition} {each.offset}' for each in copies)}"
            )
        elif len(copies) < least:
            self.unsettled.append(source)

    def _alone(self, source: Stored, rule: PlannedRule) -> None:
        self._count_once(source, 1)
        if due_ms(source, rule) is None:
            self._met("dead letter")
            if source.value in self.delivered:
                self.wrong.append(f"delivered though it belongs to the dead letters: {source}")
        elif source.value in self.dead and source.header(EXPIRES_AT) is None:
            reason = self.dead[source.value][0].header(REASON)
            self.wrong.append(f"lost: {source} is a dead letter, {reason!r}")
        elif source.value in self.dead:
            self._met("expired")
        for each in self.delivered.get(source.value, ()):
            self._met("delivered")
            if each.topic != rule.target:
                self.wrong.append(f"wrong target: {source} is in {each.topic}")

    # --- those with one id ---

    def _chain(self, chain: list[Stored], rule: PlannedRule) -> None:
        waits: Stored | None = None
        was_delivered = False
        for each in chain:
            if waits is not None and waits.value not in self.delivered:
                self._withdrawn(each, rule)
                waits = None if is_cancellation(each) else each
                continue
            if waits is not None:
                self._alone(waits, rule)
                self._was_in_time(waits, each)
                was_delivered, waits = True, None
            if is_cancellation(each):
                self._met("cancelled in vain")
                self._expect_result(
                    each, rule, {TOO_LATE} if was_delivered and not self.forgets else {TOO_LATE, UNKNOWN}
                )
            elif not was_delivered or (self.forgets and (each.value in self.delivered or self._began_anew(each, rule))):
                waits = each
            else:
                self._met("too late")
                self._expect_result(each, rule, {TOO_LATE})
                if each.value in self.delivered:
                    self.wrong.append(f"delivered though one with its id was delivered before: {each}")
        if waits is not None:
            self._alone(waits, rule)

    def _began_anew(self, source: Stored, rule: PlannedRule) -> bool:
        """Whether the delivery of one with its id was forgotten: nobody was told that it came too late."""
        told = self.results.get((source.topic, source.partition, source.offset), [])
        return rule.results is not None and TOO_LATE not in told

    def _withdrawn(self, by: Stored, rule: PlannedRule) -> None:
        """The one that waited was not delivered, as `by` came behind it."""
        result = CANCELLED if is_cancellation(by) else REPLACED
        self._met(result)
        self._expect_result(by, rule, {result})
        if is_cancellation(by) and (by.value in self.delivered or by.value in self.dead):
            self.wrong.append(f"a cancellation was delivered: {by}")

    def _was_in_time(self, delivered: Stored, later: Stored) -> None:
        for stored in self.delivered[delivered.value]:
            send = self.known.send_of(stored)
            if send is not None and self.known.had_taken(later, send):
                what = "cancelled" if is_cancellation(later) else "replaced"
                self.wrong.append(
                    f"{what} but delivered: {delivered}, by {send.life.name} at {send.at_s:.3f} s, though it knew {later}"
                )

    def _expect_result(self, source: Stored, rule: PlannedRule, wanted: set[str]) -> None:
        if rule.results is None:
            return
        found = self.results.get((source.topic, source.partition, source.offset), [])
        if not found:
            self.unsettled.append(source)
        elif len(found) > 1 or found[0] not in wanted:
            self.wrong.append(f"wrong result: {source} was answered {found}, not {sorted(wanted)}")

    def _met(self, what: str) -> None:
        self.met[what] = self.met.get(what, 0) + 1


def _source_of(stored: Stored) -> tuple[str, int, int]:
    topic, partition, offset = (stored.header(name) for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET))
    assert topic is not None and partition is not None and offset is not None, stored
    return topic, int(partition), int(offset)


def lost(outcomes: Outcomes) -> Iterator[str]:
    """What should have come by now."""
    if outcomes.unsettled:
        first = outcomes.unsettled[0]
        yield f"lost: nothing came of {len(outcomes.unsettled)} records, as {first}"
