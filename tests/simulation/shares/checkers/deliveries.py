"""Deliveries of one share group: what was accepted or rejected does not come again, nobody is given what another one
holds, counts of deliveries stay within their limit, and no record is lost.

A client knows of an acquisition when it is told, and it happened since the request was sent. So of two acquisitions one
is surely the later one if its request was sent when the other was told. A member surely holds a record from then until
its lock may have run out, reckoned from the request; until it sends an acknowledgement; until its session ends. What
was only acquired is not stored: holds and counts are compared within one term of one leader, which both answers are
known to be of. What is done counts whoever has answered it, as a leader that was one can store nothing once the next one has
read; but such a leader may still deliver it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.share_states import AcknowledgeType
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report

ENDS = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})
"""After these a record is not delivered again."""


class Term(NamedTuple):
    """Of a leader that was the leader, and knew it, from a request to its answer. `loads` counts how often it has
    loaded what is stored: what was only acquired before is forgotten then."""

    broker_id: int
    life: int
    leader_epoch: int
    loads: int = 0


@dataclass(slots=True)
class Hold:
    member: str
    sent_s: float
    told_s: float
    until_s: float
    count: int
    term: Term | None
    is_over: bool = False
    """Whether it may have ended by now."""


@dataclass(slots=True)
class RecordFate:
    value: str = ""
    hold: Hold | None = None
    done_s: float | None = None
    """What is asked for after that may not contain it."""
    doubts: int = 0
    """Acknowledgements that end it, of which nobody knows whether they came into force."""
    most_count: int = 0
    unanswered: int = 0
    """Of the partition, when it was last delivered."""


@dataclass(slots=True)
class PartitionFates:
    records: dict[int, RecordFate] = field(default_factory=dict)
    unanswered: int = 0
    """Fetches without an answer, each of which may have acquired anything."""
    floor: int = 0
    """What lies before it nobody has to finish."""


class AcknowledgedRows(NamedTuple):
    """What one request acknowledges in one partition: offsets with their kinds, when it was sent, and which of them the
    member surely held then, with the earliest end of these holds."""

    group: str
    key: TopicPartition
    member: str
    kinds: dict[int, AcknowledgeType]
    sent_s: float
    term: Term | None
    sure: frozenset[int]
    sure_until_s: float


class DeliveryChecker:
    """`limit_of` tells the limit of deliveries of a group, `lock_s_of` how long its locks last at least, `deleted_to` up to
    where records of a partition may have been deleted."""

    def __init__(
        self,
        report: Report,
        count: Callable[[str], None],
        now_s: Callable[[], float],
        *,
        limit_of: Callable[[str], int],
        lock_s_of: Callable[[str], float],
        session_s: float,
        deleted_to: Callable[[TopicPartition], int] = lambda key: 0,
    ) -> None:
        self._report = report
        self._count = count
        self._now_s = now_s
        self._limit_of = limit_of
        self._lock_s_of = lock_s_of
        self._session_s = session_s
        self._deleted_to = deleted_to
        self._partitions: dict[tuple[str, TopicPartition], PartitionFates] = {}
        self._alive_s: dict[str, float] = {}
        self._held: dict[str, set[tuple[str, TopicPartition, int]]] = {}
        self._excused: set[TopicPartition] = set()
        self.forgotten_count = 0

    def _of(self, group: str, key: TopicPartition) -> PartitionFates:
        return self._partitions.setdefault((group, key), PartitionFates())

    # --- members ---

    def alive(self, member: str, sent_s: float) -> None:
        """A coordinator has answered a heartbeat that was sent then: the group does not give the member up before its
        session ends."""
        self._alive_s[member] = max(self._alive_s.get(member, 0.0), sent_s)

    def session_over(self, member: str, broker_id: int | None = None) -> None:
        """The member's share session at a broker, or all of them, may have ended, and what it held there may be free."""
        held = self._held.get(member, set())
        for group, key, offset in sorted(held):
            record = self._of(group, key).records.get(offset)
            hold = None if record is None else record.hold
            if hold is None or hold.member != member:
                held.discard((group, key, offset))
            elif broker_id is None or hold.term is None or hold.term.broker_id == broker_id:
                hold.is_over = True
                held.discard((group, key, offset))

    def unanswered(self, group: str, key: TopicPartition) -> None:
        """A fetch that asked for records of the partition has no answer."""
        self._of(group, key).unanswered += 1

    def _is_sure(self, hold: Hold, at_s: float) -> bool:
        """Whether the member surely holds it then."""
        alive_until_s = self._alive_s.get(hold.member, 0.0) + self._session_s
        return not hold.is_over and at_s < min(hold.until_s, alive_until_s)

    # --- acquisitions ---

    def acquired(
        self,
        group: str,
        key: TopicPartition,
        member: str,
        values: Mapping[int, str],
        count: int,
        *,
        sent_s: float,
        lock_s: float,
        term: Term | None,
        forgotten_count: int,
    ) -> None:
        """A member was told that it has these records, by offset, for the `count`-th time. `forgotten_count` is from
        when it was sent."""
        limit = self._limit_of(group)
        if not 1 <= count <= limit:
            self._report(f"{group}: {key} {min(values)} is delivered for time {count}, the limit is {limit}")
        if lock_s < self._lock_s_of(group):
            self._report(f"{group}: {member} is told a lock of {lock_s} s, it is {self._lock_s_of(group)}")
        if forgotten_count != self.forgotten_count:
            term = None
        now_s, fates = self._now_s(), self._of(group, key)
        for offset, value in values.items():
            record = fates.records.setdefault(offset, RecordFate())
            self._count("records delivered again" if record.value else "records delivered")
            if record.value not in ("", value) and key not in self._excused:
                self._report(f"{group}: {key} {offset} is {value[:80]!r}, and was {record.value[:80]!r}")
            record.value = value
            if term is not None and record.done_s is not None and sent_s > record.done_s and key not in self._excused:
                self._report(f"{group}: {member} is given {key} {offset} again ({value[:40]!r}), which was done")
            record.hold = self._held_now(
                group, key, offset, record, Hold(member, sent_s, now_s, sent_s + lock_s, count, term)
            )
            record.most_count = max(record.most_count, count)
            record.unanswered = fates.unanswered
            self._held.setdefault(member, set()).add((group, key, offset))

    def _held_now(self, group: str, key: TopicPartition, offset: int, record: RecordFate, new: Hold) -> Hold:
        old = record.hold
        if old is None or old.term is None or old.term != new.term or key in self._excused:
            return new
        if new.sent_s < old.told_s:  # nobody knows which of them came first
            new.is_over = True
            return new
        what = f"{group}: {key} {offset} was given to {new.member}"
        if self._is_sure(old, new.told_s):
            self._report(f"{what}, though {old.member} holds it since {old.told_s:.3f} s")
        if new.count <= old.count:
            self._report(f"{what} for time {new.count}, after {old.count} at {old.member}")
        return new

    # --- acknowledgements ---

    def acknowledging(
        self, group: str, key: TopicPartition, member: str, kinds: Mapping[int, AcknowledgeType], term: Term | None
    ) -> AcknowledgedRows:
        """A member sends acknowledgements; give what is returned to `answered` or `in_doubt`."""
        now_s, fates = self._now_s(), self._of(group, key)
        sure, until_s = set(), float("inf")
        for offset, kind in kinds.items():
            record = fates.records.setdefault(offset, RecordFate())
            hold = record.hold
            if hold is not None and hold.member == member:
                if self._is_sure(hold, now_s) and hold.term is not None and hold.term == term:
                    sure.add(offset)
                    until_s = min(until_s, hold.until_s, self._alive_s.get(member, 0.0) + self._session_s)
                if kind is not AcknowledgeType.RENEW:
                    hold.is_over = True
            record.doubts += kind in ENDS
        return AcknowledgedRows(group, key, member, dict(kinds), now_s, term, frozenset(sure), until_s)

    def answered(
        self, rows: AcknowledgedRows, term: Term | None, *, is_done: bool, is_refused: bool, forgotten_count: int
    ) -> None:
        """`is_done`: NONE; `is_refused`: INVALID_RECORD_STATE; else an error after which nothing is known.
        `forgotten_count` is from when it was sent."""
        if not is_done and not is_refused:
            return
        now_s, fates = self._now_s(), self._of(rows.group, rows.key)
        is_of_one_term = term is not None and term == rows.term and forgotten_count == self.forgotten_count
        is_sure = is_of_one_term and now_s < rows.sure_until_s and rows.key not in self._excused
        if is_refused:
            if is_sure and rows.sure >= rows.kinds.keys():
                self._report(f"{rows.group}: {rows.key} {min(rows.kinds)} is refused to {rows.member}, which holds it")
            for offset, kind in rows.kinds.items():
                if offset in fates.records:
                    fates.records[offset].doubts -= kind in ENDS
            return
        if forgotten_count != self.forgotten_count:
            return  # it stays in doubt
        for offset, kind in rows.kinds.items():
            record = fates.records.setdefault(offset, RecordFate())
            if is_of_one_term:
                self._check_owner(rows, offset, record, now_s)
            self._count(f"acknowledged: {kind.name.lower()}")
            if kind in ENDS:
                hold = record.hold
                is_held = is_sure and offset in rows.sure and hold is not None and hold.member == rows.member
                done_s = hold.told_s if is_held and hold is not None else now_s
                record.done_s = done_s if record.done_s is None else min(record.done_s, done_s)
            elif kind is AcknowledgeType.RENEW and offset in rows.sure:
                self._renewed(record, rows)

    def _renewed(self, record: RecordFate, rows: AcknowledgedRows) -> None:
        hold = record.hold
        if hold is not None and hold.member == rows.member and not hold.is_over:
            hold.until_s = rows.sent_s + self._lock_s_of(rows.group)

    def _check_owner(self, rows: AcknowledgedRows, offset: int, record: RecordFate, now_s: float) -> None:
        hold = record.hold
        if hold is None or hold.member == rows.member or hold.term != rows.term or hold.told_s > rows.sent_s:
            return
        if offset < self._deleted_to(rows.key):
            return  # what is said of records before the start offset is nothing
        if self._is_sure(hold, now_s) and rows.key not in self._excused:
            self._report(f"{rows.group}: {rows.member} acknowledged {rows.key} {offset}, which {hold.member} holds")

    # --- what may be lost ---

    def excuse(self, key: TopicPartition) -> None:
        """Records of this partition may be lost, and others be at their offsets."""
        self._excused.add(key)

    def forget(self) -> None:
        """What was stored of share groups may be lost: anything may come again."""
        self.forgotten_count += 1
        for fates in self._partitions.values():
            for record in fates.records.values():
                record.done_s = None
                if record.hold is not None:
                    record.hold.is_over = True

    def reset(self, group: str, key: TopicPartition, start: int) -> None:
        """Somebody sets where the group starts: what comes from there on comes again, and what lies before it need not come."""
        self._partitions[group, key] = PartitionFates(floor=start)

    # --- at the end ---

    def undone(self, group: str, key: TopicPartition, known: Mapping[int, str]) -> dict[int, str]:
        """Of the records of the partition, by offset: those that nobody can have finished, and why."""
        if key in self._excused:
            return {}
        fates, limit = self._of(group, key), self._limit_of(group)
        found = {}
        for offset, value in known.items():
            record = fates.records.get(offset, RecordFate())
            if offset < fates.floor:
                continue
            if record.value not in ("", value):
                found[offset] = f"delivered was {record.value[:80]!r}, and {value[:80]!r} is there"
                continue
            is_done = record.done_s is not None or record.doubts
            unseen = fates.unanswered - record.unanswered
            if not is_done and record.most_count + unseen < limit:
                found[offset] = f"delivered {record.most_count} times, {unseen} fetches had no answer"
        return found

    def holder(self, group: str, key: TopicPartition, other_than: str) -> tuple[int, str] | None:
        """A record that somebody else surely holds: its offset, and who."""
        now_s = self._now_s()
        for offset, record in self._of(group, key).records.items():
            hold = record.hold
            if hold is not None and hold.member != other_than and hold.term is not None and self._is_sure(hold, now_s):
                return offset, hold.member
        return None
