"""The appends of operations on groups that change before they are committed: what a journal has, and who waits for it.

Rules: no IO. An operation without records answers at once, or with the last records of the group that are not committed yet, on
which it may depend.
Invariant: a shard whose records were lost after they had been appended serves none of these groups any more: another broker
leads, or the log has failed, and what the log has is not known here.
Source: Kafka CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.group.append_errors import consumer_append_error
from coordinator.group.assigned.journal import Journal, WrittenChanges
from coordinator.group.events import AppendFailed
from coordinator.runtime.contract import AppendRecords, Outbox, Response, Result, Waiter
from protocol.errors import ErrorCode, KafkaError

# How long a timer waits whose records were refused.
TIMER_RETRY_MS = 500


class Appends:
    """Of a shard, for all kinds of its groups."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._last_written: dict[str, WrittenChanges] = {}  # by group id, while it is not committed
        self.is_lost = False

    def check_not_lost(self) -> None:
        """Raises: KafkaError (NOT_COORDINATOR)."""
        if self.is_lost:
            raise KafkaError(consumer_append_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def append(
        self,
        group_id: str,
        journal: Journal,
        waiter: Waiter,
        response: Response,
        answer: Callable[[ErrorCode], Response],
    ) -> None:
        """Append what `journal` has. `waiter` gets `response` when that is committed, or what `answer` makes of the error."""
        if journal:
            self._write(group_id, journal, answer, waiter, response)
        else:
            before = self._last_written.get(group_id)
            if before is not None and before.is_pending:
                before.follow(waiter, response, answer)
            else:
                self._last_written.pop(group_id, None)
                self._outbox.respond(waiter, response)
        self._follow(journal)

    def append_unasked(self, group_id: str, journal: Journal, what: str) -> None:
        """Append what `journal` has, for nobody. `what` is changed, for the log line of a failure."""
        if journal:

            def not_stored(error: ErrorCode) -> None:
                self._outbox.put(AppendFailed(group_id, what, error.name))

            self._write(group_id, journal, not_stored, None, None)
        self._follow(journal)

    def _write(
        self,
        group_id: str,
        journal: Journal,
        answer: Callable[[ErrorCode], Response],
        waiter: Waiter | None,
        response: Response | None,
    ) -> None:
        appended = journal.written(answer, self._outbox)
        last, written = appended[-1]
        last.response, last.waiter = response, waiter
        for result, _ in appended:
            self._outbox.put(AppendRecords(result))
        self._last_written[group_id] = written

    def _follow(self, journal: Journal) -> None:
        for effect in journal.effects:
            self._outbox.put(effect)

    def not_stored(self, result: Result) -> None:
        """The records of `result` were refused, or lost after they had been appended."""
        assert isinstance(result.change, WrittenChanges)
        if result.is_appended:
            self.is_lost = True
        else:
            result.change.undo()
