"""What one transaction does for one source partition: what is taken in, copied, delivered and put aside. Pure.

    work = plan(source, contents, now_ms, terms)     nothing is changed
    ... everything in `work.sends` and `work.copies` is produced, then `work.index_records()`, then the offset
    work.committed()                                 the source and its index follow

Rules: what is delivered comes in the order of (due time, order of taking in). Records that are due when they are taken in are
delivered in the same transaction, unless others that are due earlier are left over: then they wait for their turn as entries.
A record that cancels or replaces another is looked at before anything is delivered: with both in one transaction it is in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from client.letters.headers import SourcePlace, dead_letter_headers, delivered_headers, read
from protocol.key_hashes import PARTITIONERS
from protocol.records.record import Record
from relay.figures import RelayCounts
from relay.relaying.decisions import (
    EXPIRED,
    Cancellation,
    DelayLimits,
    Due,
    Refused,
    decide,
    tier_for,
)
from relay.relaying.needs import BucketNeeds
from relay.rules.rule import Partitioner, RuleKind
from relay.waiting.entries import NO_ID, SOURCE, WaitingEntry, id_hash, offset_of, place_of, tier_of
from relay.waiting.index_records import EntryOutcome, done_record, position_record, taken_record

if TYPE_CHECKING:
    from client.committing import OffsetAndMetadata
    from client.letters.headers import Letter
    from relay.relaying.contents import Contents
    from relay.relaying.source import SourcePartition

RECORDS_MAX: Final = 2_000
"""So many records of a source are taken in at most, and as many delivered, in one transaction."""
GONE_REASON: Final = "the content is not there any more"
RESULT: Final = "barnabas-result"
TOO_LATE, CANCELLED, REPLACED, UNKNOWN = "too late", "cancelled", "replaced", "unknown"


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all sources of a process. `dead_letters` is for rules that name no topic of their own. `partitions` has
    the number of partitions of targets; those in `offline` have one without a leader."""

    dead_letters: str
    limits: DelayLimits = field(default_factory=DelayLimits)
    partitions: dict[str, int] = field(default_factory=dict)
    offline: set[str] = field(default_factory=set)


class Outgoing(NamedTuple):
    """A record to be produced; `partition` is None where the producer chooses it. `place` is that of the entry, or of the
    record in its source, that it is made of."""

    topic: str
    partition: int | None
    record: Record
    place: int
    is_for_target: bool


@dataclass(slots=True)
class WaitingRecord:
    """A record that is to wait. A copy is made of it where `tier` is that of a bucket, which says its `place`."""

    due_ms: int
    tier: int
    id_hash: int
    record: Record
    headers: list[tuple[str, bytes | None]]
    place: int


class _Ready(NamedTuple):
    """A record that is delivered. `entry` is None for one that has just been read."""

    due_ms: int
    order: int
    entry: WaitingEntry | None
    record: Record
    id_hash: int
    attempt: int | None


class SourceWork:
    """The plan for one source. `now_ms` is the time of delivery."""

    def __init__(self, source: SourcePartition, now_ms: int, terms: Terms) -> None:
        self.source = source
        self.now_ms = now_ms
        self.sends: list[Outgoing] = []
        self.counts = RelayCounts()
        self.lateness_ms: list[int] = []
        """Of the delivered ones."""
        self.position: OffsetAndMetadata = source.position
        self.reasons: list[str] = []
        """Why records become dead letters."""
        self._terms = terms
        self._taken_count = 0
        self._waits: dict[int, WaitingRecord] = {}  # by the offset in the source
        self._waits_by_id: dict[int, int] = {}
        self._ended: dict[int, tuple[EntryOutcome, int]] = {}  # by place
        self._ready: dict[int, _Ready] = {}  # by the offset in the source
        self._ready_by_id: dict[int, int] = {}
        self._records: list[tuple[bytes, bytes | None]] = []
        self.is_starved = False
        """Whether records are due whose contents are still to be read."""

    @property
    def is_empty(self) -> bool:
        return not self._taken_count and not self._ended and not self.source.must_commit

    @property
    def copies(self) -> list[WaitingRecord]:
        """The records that go to buckets, in the order of the source."""
        return [each for each in self._waits.values() if each.tier != SOURCE]

    @property
    def near(self) -> list[WaitingRecord]:
        """The records that wait where they are."""
        return [each for each in self._waits.values() if each.tier == SOURCE]

    @property
    def ended(self) -> list[int]:
        """The places that are not asked for any more."""
        return list(self._ended)

    def index_records(self) -> list[tuple[bytes, bytes | None]]:
        """Return what is written into the relay's log, when the places of all copies are known. Called once."""
        source = self.source
        self._records = source.index.merge(self.now_ms)
        sequence = source.index.next_sequence()
        self.counts.copied = len(self.copies)
        if self._waits:
            entries = [WaitingEntry(each.due_ms, each.place, each.id_hash) for each in self._waits.values()]
            self._records.append(taken_record(*source.key, sequence, entries))
        if self._ended:
            done = [(place, outcome, id_) for place, (outcome, id_) in self._ended.items()]
            self._records.append(done_record(*source.key, sequence, done, self.now_ms))
        self._records.append(
            position_record(*source.key, self.position.offset, self.position.leader_epoch, source.topic_id)
        )
        return self._records

    @property
    def needs(self) -> BucketNeeds:
        """What is needed of the buckets once the transaction is committed, when the places of all copies are known: what
        waits now, and the copies."""
        needs = self.source.needs
        lowest = dict(needs.lowest)
        for each in self.copies:
            lowest[each.tier] = min(lowest.get(each.tier, offset_of(each.place)), offset_of(each.place))
        return BucketNeeds(needs.log_partitions, lowest)

    def committed(self) -> None:
        """The transaction is committed: the index and the position follow."""
        source = self.source
        for key, value in self._records:
            source.index.replay(key, value)
        source.took(self._taken_count, self.position)
        del source.lost_places[:RECORDS_MAX]
        for place in self._ended:
            source.refused.pop(place, None)
        if self.sends:
            source.delivered(RECORDS_MAX)

    def copied(self, offset: int, bucket_offset: int) -> None:
        """The record at `offset` of the source was copied to `bucket_offset` of its bucket."""
        waiting = self._waits[offset]
        waiting.place = place_of(waiting.tier, bucket_offset)

    # --- taking in ---

    def take_in(self, count: int) -> None:
        """Plan the next records of the source, at most `count`. Raises InvalidBatch."""
        self._give_up_lost()
        records, self.position = self.source.peek(count)
        for record in records:
            self._take(record)
        self._taken_count = len(records)
        self.counts.taken_in = len(records)

    def _give_up_lost(self) -> None:
        """End entries whose contents went with a topic that was deleted, a bounded number at a time."""
        for place in self.source.lost_places[:RECORDS_MAX]:
            self._ended[place] = EntryOutcome.GONE, NO_ID
            self.counts.gone += 1
            self.reasons.append(GONE_REASON)

    def _take(self, record: Record) -> None:
        source, letter = self.source, read(record.headers)
        decision = decide(source.rule, letter, record.timestamp, self.now_ms, self._terms.limits)
        id_ = 0 if letter.message_id is None else id_hash(letter.message_id)
        if isinstance(decision, Refused):
            self._refuse(record, self._place(record), decision.reason, decision.attempt)  # it never waits
        elif isinstance(decision, Cancellation):
            self._cancel(record, id_)
        elif not id_ or self._may_come(record, id_):
            self._await(record, decision, id_)

    def _cancel(self, record: Record, id_: int) -> None:
        if self._withdraw(id_, EntryOutcome.CANCELLED):
            self.counts.cancelled += 1
            self._answer(record, CANCELLED)
        elif self._is_delivered(id_):
            self.counts.too_late += 1
            self._answer(record, TOO_LATE)
        else:
            self._answer(record, UNKNOWN)

    def _may_come(self, record: Record, id_: int) -> bool:
        """Return whether a record with an id is new, or replaces one that waits. One that is tried again may come each time."""
        if self._withdraw(id_, EntryOutcome.REPLACED):
            self.counts.replaced += 1
            self._answer(record, REPLACED)
            return True
        if self.source.rule.kind is not RuleKind.RETRY and self._is_delivered(id_):
            self.counts.too_late += 1
            self._answer(record, TOO_LATE)
            return False
        return True

    def _withdraw(self, id_: int, outcome: EntryOutcome) -> bool:
        """Let the record with an id wait no longer. Return whether one did."""
        own = self._waits_by_id.pop(id_, None)
        if own is not None:
            del self._waits[own]
            return True
        own = self._ready_by_id.pop(id_, None)
        if own is not None:
            del self._ready[own]
            return True
        entry = self.source.index.find(id_)
        if entry is None or entry.place in self._ended:
            return False
        self._ended[entry.place] = outcome, id_
        return True

    def _is_delivered(self, id_: int) -> bool:
        return self.source.index.delivered_ms(id_) is not None

    def _await(self, record: Record, due: Due, id_: int) -> None:
        if due.due_ms <= self.now_ms:
            self._ready[record.offset] = _Ready(due.due_ms, record.offset, None, record, id_, due.attempt)
            if id_:
                self._ready_by_id[id_] = record.offset
            return
        self._let_wait(record, due, id_)

    def _let_wait(self, record: Record, due: Due, id_: int) -> None:
        tier = tier_for(due.due_ms, self.now_ms, self._terms.limits)
        headers = [] if tier == SOURCE else self._delivered(record, due.attempt)
        self._waits[record.offset] = WaitingRecord(due.due_ms, tier, id_, record, headers, self._place(record))
        if id_:
            self._waits_by_id[id_] = record.offset

    # --- delivering ---

    def deliver(self, contents: Contents, count: int) -> None:
        """Plan what is due, at most `count`, and what was due when it was taken in."""
        source = self.source
        is_caught_up = source.is_caught_up or self.position.offset >= source.end
        ready: list[_Ready] = []
        has_more = source.is_held or not is_caught_up or bool(source.lost_places)
        if not has_more:
            due = source.index.take_due(self.now_ms, count)
            has_more = len(due) == count
            for order, entry in enumerate(due):
                if entry.place in self._ended:
                    continue
                content = contents.get(source.key, entry.place)
                if content is None:
                    self.is_starved = has_more = True
                    break
                if isinstance(content, str):
                    self._gone(entry)
                else:
                    ready.append(_Ready(entry.due_ms, order - count, entry, content, entry.id_hash, None))
        if has_more or source.limit is not None:
            for each in self._ready.values():
                self._let_wait(each.record, Due(each.due_ms, each.attempt), each.id_hash)
        else:
            ready.extend(self._ready.values())
        ready.sort(key=_in_order)
        for each in ready:
            self._bring(each)

    def _bring(self, ready: _Ready) -> None:
        record, entry = ready.record, ready.entry
        letter = read(record.headers)
        place = self._place(record) if entry is None else entry.place
        if letter.expires_at_ms is not None and letter.expires_at_ms <= self.now_ms:
            self._refuse(record, place, EXPIRED, ready.attempt, entry)
            return
        reason = self.source.refusal or self.source.refused.get(place)
        partition = self._partition(record) if reason is None else None
        if reason is None and isinstance(partition, str):
            reason, partition = partition, None
        if reason is not None:
            self._refuse(record, place, reason, ready.attempt, entry)
            return
        assert not isinstance(partition, str)
        if entry is not None and tier_of(entry.place) != SOURCE:
            headers = record.headers
        else:
            headers = self._delivered(record, self._attempt(letter) if entry is not None else ready.attempt)
        self._send(self.source.rule.target, record, headers, place, partition=partition, is_for_target=True)
        if entry is not None or ready.id_hash:
            self._ended[place] = EntryOutcome.DELIVERED, ready.id_hash
        self.counts.delivered += 1
        self.lateness_ms.append(self.now_ms - max(ready.due_ms, record.timestamp))

    def _attempt(self, letter: Letter) -> int | None:
        """Return the number of failed attempts of a retry that has waited in its source."""
        return max(letter.attempt, letter.retries + 1) if self.source.rule.delays_ms else None

    def _partition(self, record: Record) -> int | str | None:
        """Return where a record goes in the target, None where the number of partitions is not known, a text where there is no
        such partition."""
        rule = self.source.rule
        if rule.partitioner is not Partitioner.SAME:
            return self._by_key(rule.target, record.key, rule.partitioner.value)
        own, count = self.source.key[1], self._terms.partitions.get(rule.target, 0)
        return own if own < count or not count else f"topic {rule.target} has no partition {own}"

    def _by_key(self, topic: str, key: bytes | None, partitioner: str = Partitioner.MURMUR2.value) -> int | None:
        """Return the partition of a key; records without one go to another partition with each transaction."""
        count = self._terms.partitions.get(topic, 0)
        if not count:
            return None
        return self.source.turn % count if key is None else PARTITIONERS[partitioner](key, count)

    def _gone(self, entry: WaitingEntry) -> None:
        self._ended[entry.place] = EntryOutcome.GONE, entry.id_hash
        self.counts.gone += 1
        self.reasons.append(GONE_REASON)

    # --- what is written ---

    def _delivered(self, record: Record, attempt: int | None) -> list[tuple[str, bytes | None]]:
        return delivered_headers(record.headers, self._source_place(record), attempt=attempt)

    def _refuse(
        self, record: Record, place: int, reason: str, attempt: int | None, entry: WaitingEntry | None = None
    ) -> None:
        """Put a record aside. `entry` is what has waited."""
        letter_place = self._source_place(record)
        if tier_of(place) != SOURCE:
            letter_place = _place_in_headers(record) or letter_place
        headers = dead_letter_headers(record.headers, letter_place, reason, attempt=attempt)
        topic = self.source.rule.dead_letters
        if topic is None or topic in self.source.avoided:
            topic = self._terms.dead_letters
        self._send(topic, record, headers, place, partition=self._by_key(topic, record.key))
        if entry is not None:
            self._ended[place] = (
                EntryOutcome.EXPIRED if reason == EXPIRED else EntryOutcome.DEAD_LETTERED,
                entry.id_hash,
            )
        if reason == EXPIRED:
            self.counts.expired += 1
        else:
            self.counts.dead_letters += 1
            self.reasons.append(reason)

    def _answer(self, record: Record, result: str) -> None:
        """Write what became of a cancellation or a new time, where the rule names a topic for that."""
        topic = self.source.rule.results
        if topic is None or topic in self.source.avoided:
            return
        headers = delivered_headers(record.headers, self._source_place(record))
        headers.append((RESULT, result.encode()))
        place, partition = self._place(record), self._by_key(topic, record.key)
        self._send(topic, record, headers, place, partition=partition, value=result.encode())

    def _send(
        self,
        topic: str,
        record: Record,
        headers: list[tuple[str, bytes | None]],
        place: int,
        *,
        partition: int | None,
        value: bytes | None = None,
        is_for_target: bool = False,
    ) -> None:
        made = Record(0, self.now_ms, record.key, record.value if value is None else value, headers)
        self.sends.append(Outgoing(topic, partition, made, place, is_for_target))

    def _source_place(self, record: Record) -> SourcePlace:
        return SourcePlace(*self.source.key, record.offset, record.timestamp)

    @staticmethod
    def _place(record: Record) -> int:
        return place_of(SOURCE, record.offset)


def plan(
    source: SourcePartition, contents: Contents, now_ms: int, terms: Terms, count: int = RECORDS_MAX
) -> SourceWork:
    """Return what is to be done for a source, at most `count` records in and out. Raises InvalidBatch."""
    count = count if source.limit is None else min(count, source.limit)
    work = SourceWork(source, now_ms, terms)
    work.take_in(count)
    work.deliver(contents, count)
    return work


def _place_in_headers(record: Record) -> SourcePlace | None:
    """Return where a record of a bucket was copied from."""
    letter = read(record.headers)
    topic, partition, offset = letter.source_topic, letter.source_partition, letter.source_offset
    if topic is None or partition is None or offset is None:
        return None
    return SourcePlace(topic, partition, offset, letter.source_timestamp_ms or 0)


def _in_order(ready: _Ready) -> tuple[int, int]:
    return ready.due_ms, ready.order
