"""Records: what was acknowledged stays, what was readable never changes, and nothing is there twice or out of order.

Each value is sent to one partition and never again under another name, so the log is known by its values. A partition's
model grows with acknowledgements and with what consumers see; it shrinks only after a loss of power, to where the log
then ends, which must be behind everything that was on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import FoundBatch, end_of, start_of
from tests.simulation.machine import End, Ended, LogState, Started

Report = Callable[[str], None]

ANYWHERE = 1 << 62


@dataclass(slots=True)
class PartitionModel:
    sent: set[str] = field(default_factory=set)
    known: dict[int, str] = field(default_factory=dict)  # offset -> value
    places: dict[str, int] = field(default_factory=dict)  # value -> offset
    acked_end: int = 0
    committed_end: int = 0  # behind what was acknowledged to acks=all, and behind every high watermark seen
    deleted_to: int = 0  # acknowledged
    revivals_count: int = 0  # how often what was deleted may have come back
    deleting_to: int = 0  # asked for
    unknown_deletions: int = 0  # of all that was committed, not answered
    records_end: int = 0  # behind the last known record
    cuts_count: int = 0
    may_be_cut: bool = False  # power was lost since the log was last seen
    leader_epoch: int = -1

    def revive(self, offset: int) -> None:
        """What was deleted from `offset` on may be there again, also for who asks later and is answered late."""
        self.deleted_to = min(self.deleted_to, offset)
        self.revivals_count += 1

    @property
    def known_end(self) -> int:
        return max(self.records_end, self.committed_end, self.deleted_to)

    @property
    def deletable_to(self) -> int:
        """Everything behind it must be there."""
        return ANYWHERE if self.unknown_deletions else self.deleting_to

    def cut(self, end_offset: int) -> None:
        self.may_be_cut = False
        self.cuts_count += 1
        for offset in [offset for offset in self.known if offset >= end_offset]:
            del self.places[self.known.pop(offset)]
        self.records_end = min(self.records_end, end_offset)
        self.acked_end = min(self.acked_end, end_offset)
        self.committed_end = min(self.committed_end, end_offset)


@dataclass(frozen=True, slots=True)
class View:
    """What a client may count on when it sends a request."""

    committed_end: int
    deleted_to: int
    known_end: int
    cuts_count: int
    revivals_count: int = 0


class LogChecker:
    """`flushes_each` names the topics whose acknowledgements promise the disk."""

    def __init__(self, report: Report, flushes_each: Iterable[str]) -> None:
        self._report = report
        self._flushes_each = frozenset(flushes_each)
        self.partitions: dict[TopicPartition, PartitionModel] = {}

    def watch(self, key: TopicPartition) -> None:
        self.partitions[key] = PartitionModel()

    def view(self, key: TopicPartition) -> View:
        model = self.partitions[key]
        return View(model.committed_end, model.deleted_to, model.known_end, model.cuts_count, model.revivals_count)

    # --- producers ---

    def sending(self, key: TopicPartition, values: Sequence[str], newest_ms: int) -> None:
        """A batch with these values is sent; `newest_ms` is its largest timestamp."""
        self.partitions[key].sent.update(values)

    def acknowledged(
        self,
        key: TopicPartition,
        base_offset: int,
        values: Sequence[str],
        acks: int,
        *,
        view: View | None = None,
        is_of_this_life: bool = True,
    ) -> None:
        """`view` is from when it was sent. `is_of_this_life`: first sent to this broker process. What one before had
        written and not flushed is recovered from the page cache, and its duplicates are answered from there, as Apache
        Kafka does."""
        model = self.partitions[key]
        for offset, value in enumerate(values, base_offset):
            self._learn(key, offset, value, "acknowledged")
        end_offset = base_offset + len(values)
        if is_of_this_life:
            model.acked_end = max(model.acked_end, end_offset)
        if acks == -1:
            model.committed_end = max(model.committed_end, end_offset)

    def _learn(self, key: TopicPartition, offset: int, value: str, how: str) -> None:
        model = self.partitions[key]
        if value not in model.sent:
            self._report(f"{how} at {key} {offset}: {value[:80]!r} was never sent there")
            return
        known = model.known.get(offset)
        if known is not None and known != value:
            self._report(f"{how} at {key} {offset}: {value[:80]!r}, but {known[:80]!r} was there")
            return
        place = model.places.get(value)
        if place is not None and place != offset:
            self._report(f"{how} at {key} {offset}: {value[:80]!r} is a duplicate of the record at {place}")
            return
        model.known[offset] = value
        model.records_end = max(model.records_end, offset + 1)
        model.places[value] = offset

    # --- readers ---

    def watermark(self, key: TopicPartition, view: View, high_watermark: int, last_stable_offset: int) -> None:
        """An answer said where the committed records end."""
        model = self.partitions[key]
        if model.cuts_count != view.cuts_count:
            return
        if high_watermark < view.committed_end:
            self._report(f"high watermark of {key} fell from {view.committed_end} to {high_watermark}")
        if last_stable_offset != high_watermark:
            self._report(f"{key}: last stable offset {last_stable_offset}, high watermark {high_watermark}")
        model.committed_end = max(model.committed_end, high_watermark)

    def fetched(
        self, key: TopicPartition, view: View, position: int, records: Sequence[tuple[int, str]], high_watermark: int
    ) -> None:
        """`records` (offset, value) came for a fetch at `position`."""
        if self.partitions[key].cuts_count != view.cuts_count:
            return
        expected = position
        for offset, value in records:
            if offset < position:
                continue  # a batch is answered whole
            if offset != expected:
                self._report(f"gap: a fetch of {key} at {position} gave {offset} after {expected - 1}")
                return
            expected += 1
            self._learn(key, offset, value, "fetched")
        if expected > high_watermark and records:
            self._report(f"{key}: a fetch gave records up to {expected}, the high watermark is {high_watermark}")

    def out_of_range(self, key: TopicPartition, view: View, position: int) -> None:
        model = self.partitions[key]
        is_deleted = self._may_be_deleted(key, position + 1)
        if model.cuts_count == view.cuts_count and position <= view.known_end and not is_deleted:
            self._report(f"{key}: {position} is out of range, but the log reaches {view.known_end}")

    def deleting(self, key: TopicPartition, offset: int) -> None:
        """Records below `offset` are asked to be deleted; -1 says all that are committed by then."""
        model = self.partitions[key]
        if offset < 0:
            model.unknown_deletions += 1
        model.deleting_to = max(model.deleting_to, offset)

    def deleted(self, key: TopicPartition, asked_offset: int, low_watermark: int, *, is_cut: bool) -> None:
        """`is_cut`: power was lost before the answer came, so the records may be there again."""
        model = self.partitions[key]
        if not is_cut:
            model.deleted_to = max(model.deleted_to, low_watermark)
        model.deleting_to = max(model.deleting_to, low_watermark)
        self.not_deleted(key, asked_offset)

    def not_deleted(self, key: TopicPartition, asked_offset: int) -> None:
        """The request has been answered."""
        if asked_offset < 0:
            self.partitions[key].unknown_deletions -= 1

    def starts_at(self, key: TopicPartition, view: View, log_start_offset: int) -> None:
        model = self.partitions[key]
        if log_start_offset < view.deleted_to and model.revivals_count == view.revivals_count:
            self._report(f"{key} starts at {log_start_offset}, but {view.deleted_to} was acknowledged")
        self._check_deleted(key, log_start_offset)

    def _check_deleted(self, key: TopicPartition, log_start_offset: int) -> None:
        if not self._may_be_deleted(key, log_start_offset):
            deletable_to = self.partitions[key].deletable_to
            self._report(f"{key} starts at {log_start_offset}, but nobody deleted beyond {deletable_to}")

    def _may_be_deleted(self, key: TopicPartition, end_offset: int) -> bool:
        """Whether the records below `end_offset` may be gone."""
        return end_offset <= self.partitions[key].deletable_to

    # --- the broker's lives ---

    def on_ended(self, ended: Ended) -> None:
        for key in self.partitions:
            written, durable = end_of(ended.written.get(key, ())), end_of(ended.durable.get(key, ()))
            state = ended.logs.get(key)
            if ended.how is End.STOPPED and durable < written:
                self._report(f"clean stop: {key} ends at {written}, only {durable} is on the disk")
            # Where a log has begun anew a recovery point below it says nothing.
            held = max(durable, start_of(ended.written.get(key, ())))
            if state is not None and state.recovery_point > held and written > durable:
                self._report(f"{key}: recovery point {state.recovery_point}, but the disk holds {durable}")
            model = self.partitions[key]
            if key[0] in self._flushes_each and model.acked_end > durable and written >= model.acked_end:
                self._report(f"{key} was acknowledged to {model.acked_end}, flushed to {durable}")

    def on_started(self, started: Started) -> None:
        if not started.after:
            return
        was_stopped = [ended.how for ended in started.after] == [End.STOPPED]
        for key, model in self.partitions.items():
            found = started.logs.get(key)
            model.may_be_cut |= started.lost_power
            if found is None and started.has_offline:
                model.revive(0)
                continue  # its directory comes back later
            self._check_epoch(key, model, found)
            end_offset = 0 if found is None else found.log_end_offset
            self._check_floor(key, end_offset, started.floor(key), "the files held")
            if model.may_be_cut:
                model.cut(end_offset)
            else:
                self._check_floor(key, end_offset, model.known_end, "readers and producers know of")
            if not was_stopped:
                model.revive(0)  # it is checkpointed from time to time
            elif found is not None and found.log_start_offset < model.deleted_to:
                self._report(f"{key} starts at {found.log_start_offset} after a clean stop, not {model.deleted_to}")

    def _check_floor(self, key: TopicPartition, end_offset: int, floor: int, who: str) -> None:
        if end_offset < floor:
            self._report(f"{key} ends at {end_offset} after recovery, but {who} {floor}")

    def _check_epoch(self, key: TopicPartition, model: PartitionModel, found: LogState | None) -> None:
        if found is None or found.leader_epoch < 0:
            return
        if found.leader_epoch < model.leader_epoch:  # a broker that leads on after a restart does so in the same epoch
            self._report(f"{key}: leader epoch {found.leader_epoch} after {model.leader_epoch}")
        model.leader_epoch = found.leader_epoch

    # --- at the end ---

    def at_rest(
        self, key: TopicPartition, log_start_offset: int, records: Sequence[tuple[int, str]], end_offset: int
    ) -> None:
        """All that is readable, after everybody has stopped."""
        model = self.partitions[key]
        found = {offset: value for offset, value in records if offset >= log_start_offset}
        for offset in range(log_start_offset, end_offset):
            if offset not in found:
                self._report(f"{key}: {offset} cannot be read, the log is [{log_start_offset}, {end_offset})")
                return
        for offset, value in sorted(found.items()):
            self._learn(key, offset, value, "read at the end")
        for offset, value in sorted(model.known.items()):
            if offset >= log_start_offset and found.get(offset) != value:
                self._report(f"{key}: {value[:80]!r} was at {offset}, now {found.get(offset, 'nothing')[:80]!r}")
        self._check_order(key, [model.known[offset] for offset in sorted(model.known)])

    def _check_order(self, key: TopicPartition, values: Sequence[str]) -> None:
        last: dict[str, int] = {}
        for value in values:
            writer, _, rest = value.rpartition("#")
            counter = int(rest.partition(" ")[0])
            if counter <= last.get(writer, -1):
                self._report(f"{key}: record {counter} of {writer} stands behind {last[writer]}")
            last[writer] = counter

    def batches_at_rest(self, key: TopicPartition, batches: Sequence[FoundBatch]) -> None:
        epoch = -1
        for batch in batches:
            if batch.leader_epoch < epoch:
                self._report(f"{key}: leader epoch {batch.leader_epoch} at {batch.base_offset}, behind {epoch}")
            epoch = batch.leader_epoch
