"""Bugs of the relay: its transactions, its index, takeovers, times. Each says which checker is to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from client.committing import GroupMembership
from client.event_loop import member_offsets, whole_log
from client.event_loop.producer import AsyncProducer
from protocol.messages.offset_fetch import OffsetFetchRequest
from relay.relaying import cleanup, session
from relay.relaying.lane import Lane
from relay.relaying.source import SourcePartition
from relay.relaying.work import SourceWork
from relay.waiting.delivered_ids import DeliveredIds
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import IndexRecordKind, parse_key
from tests.simulation.mutants import Mutant, Patches

EARLY_MS = 5


def _known_in_memory_alone(kind: IndexRecordKind) -> Callable[[Patches], None]:
    """Records of the index of this kind are replayed, and not written."""

    def plant(patches: Patches) -> None:
        def keep(original: Any) -> Any:
            def index_records(self: SourceWork) -> Any:
                return [each for each in original(self) if parse_key(each[0]).kind is not kind]

            return index_records

        patches.replace(SourceWork, "index_records", keep)

    return plant


def _replayed_before_commit(patches: Patches) -> None:
    def early(original: Any) -> Any:
        def index_records(self: SourceWork) -> Any:
            found = original(self)
            for key, value in found:
                self.source.index.replay(key, value)
            return found

        return index_records

    patches.replace(SourceWork, "index_records", early)


def _offsets_without_generation(patches: Patches) -> None:
    def bare(original: Any) -> Any:
        async def send_offsets(self: AsyncProducer, group: GroupMembership, offsets: Any) -> None:
            await original(self, GroupMembership(group.group_id), offsets)

        return send_offsets

    patches.replace(AsyncProducer, "send_offsets", bare)


def _abort_forgotten(patches: Patches) -> None:
    works: dict[int, Any] = {}

    def note(original: Any) -> Any:
        async def _transact(self: Lane, planned: Any) -> None:
            works[id(self)] = planned
            await original(self, planned)

        return _transact

    def forget(original: Any) -> Any:
        def _aborted(self: Lane, *args: Any, **options: Any) -> None:
            original(self, *args, **options)
            self._committed(works[id(self)])

        return _aborted

    patches.replace(Lane, "_transact", note)
    patches.replace(Lane, "_aborted", forget)


def _unstable_offsets_believed(patches: Patches) -> None:
    def hurry(original: Any) -> Any:
        def request(**fields: Any) -> OffsetFetchRequest:
            made: OffsetFetchRequest = original(**{**fields, "require_stable": False})
            return made

        return request

    patches.replace(member_offsets, "OffsetFetchRequest", hurry)


def _log_not_read_to_its_end(patches: Patches) -> None:
    """Open transactions are not waited for: what they have written comes later."""

    def stable(original: Any) -> Any:
        def offsets(*args: Any, **options: Any) -> Any:
            return original(*args, **{**options, "is_committed_only": True})

        return offsets

    patches.replace(whole_log, "offsets", stable)


def _delivers_before_it_is_caught_up(patches: Patches) -> None:
    patches.replace(SourcePartition, "is_caught_up", lambda original: property(lambda self: True))


def _due_too_early(patches: Patches) -> None:
    def early(original: Any) -> Any:
        def take_due(self: WaitingIndex, now_ms: int, *args: Any) -> Any:
            return original(self, now_ms + EARLY_MS, *args)

        return take_due

    patches.replace(WaitingIndex, "take_due", early)


def _latest_first(patches: Patches) -> None:
    def turn(original: Any) -> Any:
        def take_due(self: WaitingIndex, *args: Any) -> Any:
            return list(reversed(original(self, *args)))

        return take_due

    patches.replace(WaitingIndex, "take_due", turn)


def _ids_forgotten(patches: Patches) -> None:
    patches.replace(DeliveredIds, "delivered_ms", lambda original: lambda self, *args: None)


def _cancelled_in_words_alone(patches: Patches) -> None:
    """What waits is found, and waits on."""

    def keep(original: Any) -> Any:
        def _withdraw(self: SourceWork, id_: int, outcome: Any) -> bool:
            before = dict(self._ended)
            found: bool = original(self, id_, outcome)
            self._ended = before
            return found

        return _withdraw

    patches.replace(SourceWork, "_withdraw", keep)


def _copies_misplaced(patches: Patches) -> None:
    def beside(original: Any) -> Any:
        def copied(self: SourceWork, offset: int, bucket_offset: int) -> None:
            original(self, offset, bucket_offset + 1)

        return copied

    patches.replace(SourceWork, "copied", beside)


def _buckets_deleted_to_their_ends(patches: Patches) -> None:
    def all_of_it(original: Any) -> Any:
        def deletable(end: int, needs: Iterable[Mapping[int, int]], tier: int) -> int:
            return end

        return deletable

    patches.replace(cleanup, "deletable", all_of_it)


def _aborted_taken_in(patches: Patches) -> None:
    patches.replace(session, "Positions", lambda original: partial(original, is_committed=False))


RELAY = (
    Mutant(
        "done-not-written",
        "twice: what was delivered is known in memory alone",
        _known_in_memory_alone(IndexRecordKind.DONE),
    ),
    Mutant(
        "taken-not-written", "lost: what waits is known in memory alone", _known_in_memory_alone(IndexRecordKind.TAKEN)
    ),
    Mutant("index-before-commit", "lost: memory goes ahead of a transaction", _replayed_before_commit),
    Mutant(
        "offsets-without-generation",
        "twice: a process that the group has replaced commits",
        _offsets_without_generation,
    ),
    Mutant("abort-forgotten", "lost: an aborted transaction counts as committed", _abort_forgotten),
    Mutant(
        "unstable-offsets-believed",
        "twice: a transaction of the former owner is not waited for",
        _unstable_offsets_believed,
    ),
    Mutant("log-not-read-to-its-end", "twice: a takeover ends at the last stable offset", _log_not_read_to_its_end),
    Mutant(
        "delivers-before-it-is-caught-up",
        "cancelled but delivered: a takeover delivers before it has read the source",
        _delivers_before_it_is_caught_up,
    ),
    Mutant("due-too-early", "early: what is due in some milliseconds is due", _due_too_early),
    Mutant("latest-first", "order: what is due last comes first", _latest_first),
    Mutant("ids-forgotten", "twice by id: what was delivered is not remembered", _ids_forgotten),
    Mutant("cancelled-in-words-alone", "cancelled but delivered: only the result says so", _cancelled_in_words_alone),
    Mutant("copies-misplaced", "lost: a copy is looked for beside its place", _copies_misplaced),
    Mutant(
        "buckets-deleted-to-their-ends", "lost: a bucket is emptied while it is needed", _buckets_deleted_to_their_ends
    ),
    Mutant("aborted-taken-in", "never sent: records of aborted transactions are delivered", _aborted_taken_in),
)
