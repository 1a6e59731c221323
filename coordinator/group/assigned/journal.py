"""The changes of one operation: each is made in memory at once, and is a record; all of them are appended together.

An operation on a group builds on those before it, whose records may not be committed yet. So a change is made when its record
is made, and taken back when the record cannot be appended; once it is in the log, only another leader can take it back, and
that one reads the log.

Rules: no IO. What depends on the operation waits for its last record: a response, and the responses of later operations without
records of their own, which may show what is not committed.
Invariant: the group equals what the log yields with the records that are being committed. Records that are too many for one
batch are appended in several, in order; a refused batch takes the later ones with it.
Source: Kafka CoordinatorRuntime, which replays at the append and takes a snapshot to go back to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.group.append_errors import consumer_append_error
from coordinator.group.assigned.entries import EntryKey
from coordinator.group.assigned.entry_records import Entry, record_of
from coordinator.runtime.contract import CoordinatorRecord, Effect, Outbox, Response, Result, Waiter
from protocol.errors import ErrorCode

# Well under the topic's max.message.bytes (1 MiB), record headers included.
BATCH_BYTES = 256 * 1024
RECORD_BYTES = 32

Undo = Callable[[], object]


class StoredGroup(Protocol):
    """A group of one kind, of which the journal changes entries."""

    needs_refresh: bool

    def put(self, key: EntryKey, entry: object | None) -> object | None: ...


class Journal:
    """Of one operation. `effects` follow its records."""

    def __init__(self) -> None:
        self._entries: list[tuple[CoordinatorRecord, Undo]] = []
        self._soft: list[Undo] = []
        self._if_refused: list[Effect] = []
        self._when_committed: list[Effect] = []
        self.effects: list[Effect] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def put(
        self, group: StoredGroup, key: EntryKey, entry: Entry | None, record: CoordinatorRecord | None = None
    ) -> None:
        """Change `group`. `record` is that of `entry`, where it was encoded before."""
        encoded = record or record_of(key, entry)
        old = group.put(key, entry)
        self._entries.append((encoded, lambda: _put_back(group, key, old)))

    def note(self, record: CoordinatorRecord, undo: Undo) -> None:
        """A change that the caller has made; `undo` takes it back."""
        self._entries.append((record, undo))

    def then(self, effect: Effect, undo: Undo | None = None) -> None:
        """`effect` follows unless the operation is refused, which also calls `undo`."""
        self.effects.append(effect)
        if undo is not None:
            self._soft.append(undo)

    def if_refused(self, effect: Effect) -> None:
        """`effect` follows when the last records are refused: it takes back what followed the operation."""
        self._if_refused.append(effect)

    def when_committed(self, effect: Effect) -> None:
        """`effect` follows when the last records are committed: what it brings about may not be taken back."""
        self._when_committed.append(effect)

    def then_undo(self, undo: Undo) -> None:
        """Call `undo` after the other ones, when the operation is refused or its first records are."""
        self._soft.append(undo)

    def undo(self) -> None:
        """Take everything back: the operation is refused."""
        for undo in [*(undo for _, undo in reversed(self._entries)), *self._soft]:
            undo()
        self._entries.clear()
        self._when_committed.clear()
        self.effects.clear()

    def written(self, answer: Callable[[ErrorCode], Response], outbox: Outbox) -> list[tuple[Result, WrittenChanges]]:
        """What has to be appended, in order. `answer` is the response to an error of the last one."""
        assert self._entries
        results: list[tuple[Result, WrittenChanges]] = []
        for batch in self._batches():
            undos = [undo for _, undo in batch]
            written = WrittenChanges(undos if results else [*reversed(self._soft), *undos], answer, outbox)
            results.append((Result(tuple(record for record, _ in batch), written, is_applied=True), written))
        results[-1][1].if_refused = self._if_refused
        results[-1][1].when_committed = self._when_committed
        return results

    def _batches(self) -> Iterator[list[tuple[CoordinatorRecord, Undo]]]:
        batch: list[tuple[CoordinatorRecord, Undo]] = []
        batch_bytes = 0
        for entry in self._entries:
            record = entry[0]
            size_bytes = RECORD_BYTES + len(record.key) + len(record.value or b"")
            if batch and batch_bytes + size_bytes > BATCH_BYTES:
                yield batch
                batch, batch_bytes = [], 0
            batch.append(entry)
            batch_bytes += size_bytes
        yield batch


@dataclass(slots=True, eq=False)
class WrittenChanges:
    """Records that were made and applied. `is_pending` until their outcome is known."""

    undos: list[Undo]
    answer: Callable[[ErrorCode], Response]
    outbox: Outbox
    if_refused: list[Effect] = field(default_factory=list)
    when_committed: list[Effect] = field(default_factory=list)
    is_pending: bool = True
    followers: list[tuple[Waiter, Response, Callable[[ErrorCode], Response]]] = field(default_factory=list)

    def undo(self) -> None:
        for undo in reversed(self.undos):
            undo()
        for effect in self.if_refused:
            self.outbox.put(effect)

    def follow(self, waiter: Waiter, response: Response, answer: Callable[[ErrorCode], Response]) -> None:
        """`waiter` gets `response` when the records are committed."""
        self.followers.append((waiter, response, answer))

    def committed(self, now_ms: int) -> None:
        self._settle()
        for effect in self.when_committed:
            self.outbox.put(effect)
        for waiter, response, _ in self.followers:
            self.outbox.respond(waiter, response)

    def failed(self, error: ErrorCode, now_ms: int) -> Response:
        self._settle()
        self._refuse(error)
        return self.answer(consumer_append_error(error))

    def timed_out(self, now_ms: int) -> Response:
        self._refuse(ErrorCode.REQUEST_TIMED_OUT)
        return self.answer(consumer_append_error(ErrorCode.REQUEST_TIMED_OUT))

    def _settle(self) -> None:
        self.is_pending = False
        self.undos = []

    def _refuse(self, error: ErrorCode) -> None:
        for waiter, _, answer in self.followers:
            self.outbox.respond(waiter, answer(consumer_append_error(error)))
        self.followers.clear()


def _put_back(group: StoredGroup, key: EntryKey, old: object | None) -> None:
    group.put(key, old)
    group.needs_refresh = True
