"""Carries out moves: some partitions at a time, throttled, until every replica is where it shall be; then their leaders.

Rules: however it ends, no throttle stays behind. What is still being moved when it ends early is taken back, since without its
throttle it would take what the network gives; what was moved before stays. A broker that does not answer for a while ends
nothing. Pure: work for whichever shell carries it out.
Only what copies is done in batches: orders of replicas change at once.
Source: Kafka ReassignPartitionsCommand, LeaderElectionCommand; KIP-455.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from runtime.command_line.failure import Failure
from runtime.texts import count_text, size_text
from tools.balance.layout import Key
from tools.balance.planner import Move
from tools.failures import failure_of
from tools.placement import current_replicas
from tools.reassignment.elections import elect_preferred
from tools.reassignment.long_work import Report, Wait, Work, carried
from tools.reassignment.moves import transfers
from tools.reassignment.reassignments import Unanswered, alter, moving, places
from tools.reassignment.throttles import remove_throttles, throttle_brokers

POLL_S = 1.0
PATIENCE = 60
"""So many looks in a row may fail before the command gives up."""
LAST_PATIENCE = 10
"""So many attempts to put the cluster in order may fail, and so many looks at the end find other replicas."""


@dataclass(slots=True)
class Execution:
    """Of the moves of one plan. `done` are those that are over. Without `throttle_bytes_per_s` nothing is throttled. `servers`
    are those of the cluster, for who is told that none answers."""

    report: Report
    servers: str
    moves: Sequence[Move]
    throttle_bytes_per_s: int | None
    batch_size: int
    done: list[Move] = field(default_factory=list)
    _pending: dict[Key, Move] = field(default_factory=dict)
    _throttled: set[int] = field(default_factory=set)
    _has_begun: bool = False
    """Whether the controller has accepted those that are pending."""
    _taken_back: set[Key] = field(default_factory=set)

    def work(self) -> Work[bool]:
        """Return whether all is moved; False when somebody has asked for the end. Raises Failure."""
        try:
            for batch in self._batches():
                if (yield Wait(0)) or not (yield from self._move(batch)):
                    break
        finally:
            yield from self._put_in_order()
        yield from self._verify()
        return len(self.done) == len(self.moves)

    def _batches(self) -> Iterator[list[Move]]:
        """Return what is moved together: what copies nothing first, then the rest, from the smallest."""
        free = [move for move in self.moves if not move.added]
        if free:
            yield free
        copying = sorted((move for move in self.moves if move.added), key=lambda move: (move.copied_bytes, move.key))
        number = -(-len(copying) // self.batch_size)
        for index in range(number):
            batch = copying[index * self.batch_size : (index + 1) * self.batch_size]
            size = size_text(sum(move.copied_bytes for move in batch))
            self.report.note(f"batch {index + 1} of {number}: {count_text(len(batch), 'partition')}, {size} to copy")
            yield batch

    def _move(self, batch: list[Move]) -> Work[bool]:
        """Return whether a batch is over. Raises Failure."""
        self._pending, self._has_begun = {move.key: move for move in batch}, False
        if not (yield from self._patiently(lambda: self._begin(batch))):
            return False
        while True:
            if not (yield from self._patiently(self._end_moves)):
                return False
            yield from self._show()
            if not self._pending:
                return True
            if (yield Wait(POLL_S)):
                return False

    def _patiently(self, action: Callable[[], Work[None]], *, is_last: bool = False) -> Work[bool]:
        """Do something, again and again while nobody answers; return False when somebody asks for the end. With `is_last` the
        cluster is put in order, for which there is less time. Raises Failure."""
        failures = 0
        while True:
            try:
                yield from action()
            except Exception as error:
                failures += 1
                if failures > (LAST_PATIENCE if is_last else PATIENCE) or not _may_pass(error):
                    raise
            else:
                return True
            if (yield Wait(POLL_S, is_stoppable=not is_last)):
                return False

    def _begin(self, batch: list[Move]) -> Work[None]:
        wanted = {move.key: move.after for move in batch if move.added}
        if self.throttle_bytes_per_s is not None and wanted:
            current = {move.key: move.before for move in batch}
            throttling = throttle_brokers(transfers({}, wanted, current), self.throttle_bytes_per_s)
            self._throttled |= yield from carried(throttling)
        yield from carried(alter({move.key: move.after for move in batch}))
        self._has_begun = True

    def _end_moves(self) -> Work[None]:
        active = yield from carried(moving())
        yield from self._end(key for key in list(self._pending) if key not in active)

    def _end(self, keys: Iterable[Key]) -> Work[None]:
        """Elect the leaders of what is over; one that cannot be elected is told, and ends nothing."""
        ended = [self._pending.pop(key) for key in keys]
        self.done += ended
        try:
            yield from carried(elect_preferred([move.key for move in ended if move.before[0] != move.after[0]]))
        except Exception as error:  # noqa: BLE001  what the cluster has not caused is raised again
            failure = self._failure_of(error)
            self.report.note(f"not elected: {failure.message}; `barnabas partitions elect` tries again")

    def _show(self) -> Work[None]:
        copied = sum(move.copied_bytes for move in self.done) + (yield from self._copied_of_pending())
        self.report.show(copied, len(self._pending))

    def _copied_of_pending(self) -> Work[int]:
        """Return how much new replicas have; nothing where a broker does not tell."""
        copying = {key: move for key, move in self._pending.items() if move.copied_bytes}
        if not copying:
            return 0
        try:
            found = yield from carried(places({broker for move in copying.values() for broker in move.added}, copying))
        except Exception as error:  # noqa: BLE001  what the cluster has not caused is raised again
            self._failure_of(error)
            return 0
        return sum(
            min(found[*key, broker].bytes, move.copied_bytes // len(move.added))
            for key, move in copying.items()
            for broker in move.added
            if (*key, broker) in found
        )

    def _put_in_order(self) -> Work[None]:
        """Take back what is still being moved, and remove the throttles. Raises Failure, which says how to do it by hand."""
        try:
            if self._pending:
                yield from self._patiently(self._take_back, is_last=True)
            if self.throttle_bytes_per_s is not None:
                yield from self._patiently(self._remove_throttles, is_last=True)
        except Exception as error:
            failure = self._failure_of(error)
            raise Failure(
                f"{failure.message}; moves go on and throttles are left: `barnabas partitions reassignments` shows the moves, "
                "`barnabas partitions cancel --execute` ends them and removes the throttles"
            ) from error

    def _remove_throttles(self) -> Work[None]:
        for note in (yield from carried(remove_throttles({move.key[0] for move in self.moves}, self._throttled))):
            self.report.note(note)

    def _take_back(self) -> Work[None]:
        """End what is being moved, and give the replicas the order that they had; what was over by then stays moved. Raises
        Failure."""
        asked = self._pending.keys() - self._taken_back
        over = yield from carried(alter(dict.fromkeys(sorted(asked))))
        self._taken_back |= asked - over
        if over and self._has_begun:
            yield from self._end(sorted(over))
        # Where the order is as before the controller has nothing to do.
        yield from carried(alter({key: list(self._pending[key].before) for key in sorted(self._taken_back)}))
        if self._taken_back:
            self.report.note(
                f"taken back: {', '.join(f'{topic}-{index}' for topic, index in sorted(self._taken_back))}"
            )

    def _verify(self) -> Work[None]:
        """Raises Failure for a partition that has other replicas than it was given, when looks of some seconds agree on it."""
        wanted = {move.key: list(move.after) for move in self.done}
        for look in range(LAST_PATIENCE):
            if look:
                yield Wait(POLL_S, is_stoppable=False)
            current = yield from carried(current_replicas(wanted))
            differing = [
                f"{topic}-{index}" for (topic, index), after in wanted.items() if current[topic, index] != after
            ]
            if not differing:
                return
        raise Failure(f"somebody else has moved {', '.join(differing)}; `barnabas topics describe` shows the replicas")

    def _failure_of(self, error: Exception) -> Failure:
        """Return how an error of the cluster is told; any other is raised again."""
        failure = error if isinstance(error, Failure) else failure_of(error, self.servers)
        if failure is None:
            raise error
        return failure


def _may_pass(error: Exception) -> bool:
    """Return whether it is an error of the connection or of the controller, which another try may not meet."""
    return isinstance(error, Unanswered) or (not isinstance(error, Failure) and failure_of(error, None) is not None)
