"""Carries out moves: some partitions at a time, throttled, until every replica is where it shall be; then their leaders.

Rules: however it ends, no throttle stays behind. What is still being moved when it ends early is taken back, since without its
throttle it would take what the network gives; what was moved before stays. A broker that does not answer for a while ends
nothing.
Only what copies is done in batches: orders of replicas change at once.
Source: Kafka ReassignPartitionsCommand, LeaderElectionCommand; KIP-455.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from runtime.command_line.failure import Failure
from runtime.command_line.output import Output
from runtime.command_line.progress import Progress
from runtime.texts import count_text, size_text
from tools.balance.layout import Key
from tools.balance.planner import Move
from tools.cluster import Cluster
from tools.commands.topics import current_replicas
from tools.failures import failure_of
from tools.reassignment.elections import elect_preferred
from tools.reassignment.interruption import Interruption
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
    """Of the moves of one plan. `done` are those that are over. Without `throttle_bytes_per_s` nothing is throttled."""

    cluster: Cluster
    moves: Sequence[Move]
    throttle_bytes_per_s: int | None
    batch_size: int
    done: list[Move] = field(default_factory=list)
    _pending: dict[Key, Move] = field(default_factory=dict)
    _throttled: set[int] = field(default_factory=set)
    _has_begun: bool = False
    """Whether the controller has accepted those that are pending."""
    _taken_back: set[Key] = field(default_factory=set)

    def run(self) -> bool:
        """Return whether all is moved; False when somebody has interrupted it. Raises Failure."""
        total = sum(move.copied_bytes for move in self.moves)
        with Interruption(self._tell_interruption) as interruption:
            progress = Progress("copied", total, self.cluster.clock, size_text)
            try:
                for batch in self._batches():
                    if interruption.is_asked or not self._move(batch, interruption, progress):
                        break
            finally:
                progress.close()
                self._put_in_order()
        self._verify()
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
            Output.note(f"batch {index + 1} of {number}: {count_text(len(batch), 'partition')}, {size} to copy")
            yield batch

    def _move(self, batch: list[Move], interruption: Interruption, progress: Progress) -> bool:
        """Return whether a batch is over. Raises Failure."""
        self._pending, self._has_begun = {move.key: move for move in batch}, False
        if not self._patiently(lambda: self._begin(batch), interruption):
            return False
        while True:
            if not self._patiently(self._end_moves, interruption):
                return False
            self._show(progress)
            if not self._pending:
                return True
            if interruption.wait(POLL_S):
                return False

    def _patiently(self, action: Callable[[], None], interruption: Interruption | None) -> bool:
        """Do something, again and again while nobody answers; return False when somebody interrupts. Without `interruption`
        the cluster is put in order, for which there is less time. Raises Failure."""
        failures = 0
        while True:
            try:
                action()
            except Exception as error:
                failures += 1
                if failures > (LAST_PATIENCE if interruption is None else PATIENCE) or not _may_pass(error):
                    raise
            else:
                return True
            if interruption is None:
                time.sleep(POLL_S)
            elif interruption.wait(POLL_S):
                return False

    def _begin(self, batch: list[Move]) -> None:
        wanted = {move.key: move.after for move in batch if move.added}
        if self.throttle_bytes_per_s is not None and wanted:
            current = {move.key: move.before for move in batch}
            self._throttled |= throttle_brokers(self.cluster, transfers({}, wanted, current), self.throttle_bytes_per_s)
        alter(self.cluster, {move.key: move.after for move in batch})
        self._has_begun = True

    def _end_moves(self) -> None:
        active = moving(self.cluster)
        self._end(key for key in list(self._pending) if key not in active)

    def _end(self, keys: Iterable[Key]) -> None:
        """Elect the leaders of what is over; one that cannot be elected is told, and ends nothing."""
        ended = [self._pending.pop(key) for key in keys]
        self.done += ended
        try:
            elect_preferred(self.cluster, [move.key for move in ended if move.before[0] != move.after[0]])
        except Exception as error:  # noqa: BLE001  what the cluster has not caused is raised again
            failure = self._failure_of(error)
            Output.note(f"not elected: {failure.message}; `barnabas partitions elect` tries again")

    def _show(self, progress: Progress) -> None:
        copied = sum(move.copied_bytes for move in self.done) + self._copied_of_pending()
        progress.show(copied, f"{count_text(len(self._pending), 'partition', 'is', 'are')} moving")

    def _copied_of_pending(self) -> int:
        """Return how much new replicas have; nothing where a broker does not tell."""
        copying = {key: move for key, move in self._pending.items() if move.copied_bytes}
        if not copying:
            return 0
        try:
            found = places(self.cluster, {broker for move in copying.values() for broker in move.added}, copying)
        except Exception as error:  # noqa: BLE001  what the cluster has not caused is raised again
            self._failure_of(error)
            return 0
        return sum(
            min(found[*key, broker].bytes, move.copied_bytes // len(move.added))
            for key, move in copying.items()
            for broker in move.added
            if (*key, broker) in found
        )

    def _put_in_order(self) -> None:
        """Take back what is still being moved, and remove the throttles. Raises Failure, which says how to do it by hand."""
        try:
            if self._pending:
                self._patiently(self._take_back, None)
            if self.throttle_bytes_per_s is not None:
                self._patiently(self._remove_throttles, None)
        except Exception as error:
            failure = self._failure_of(error)
            raise Failure(
                f"{failure.message}; moves go on and throttles are left: `barnabas partitions reassignments` shows the moves, "
                "`barnabas partitions cancel --execute` ends them and removes the throttles"
            ) from error

    def _remove_throttles(self) -> None:
        remove_throttles(self.cluster, {move.key[0] for move in self.moves}, self._throttled)

    def _take_back(self) -> None:
        """End what is being moved, and give the replicas the order that they had; what was over by then stays moved. Raises
        Failure."""
        asked = self._pending.keys() - self._taken_back
        over = alter(self.cluster, dict.fromkeys(sorted(asked)))
        self._taken_back |= asked - over
        if over and self._has_begun:
            self._end(sorted(over))
        # Where the order is as before the controller has nothing to do.
        alter(self.cluster, {key: list(self._pending[key].before) for key in sorted(self._taken_back)})
        if self._taken_back:
            Output.note(f"taken back: {', '.join(f'{topic}-{index}' for topic, index in sorted(self._taken_back))}")

    def _verify(self) -> None:
        """Raises Failure for a partition that has other replicas than it was given, when looks of some seconds agree on it."""
        wanted = {move.key: list(move.after) for move in self.done}
        for look in range(LAST_PATIENCE):
            if look:
                time.sleep(POLL_S)
            current = current_replicas(self.cluster, wanted)
            differing = [
                f"{topic}-{index}" for (topic, index), after in wanted.items() if current[topic, index] != after
            ]
            if not differing:
                return
        raise Failure(f"somebody else has moved {', '.join(differing)}; `barnabas topics describe` shows the replicas")

    def _failure_of(self, error: Exception) -> Failure:
        """Return how an error of the cluster is told; any other is raised again."""
        failure = error if isinstance(error, Failure) else failure_of(error, self.cluster.settings.bootstrap_servers)
        if failure is None:
            raise error
        return failure

    def _tell_interruption(self) -> None:
        Output.note("interrupted: what is being moved is taken back, and throttles are removed")


def _may_pass(error: Exception) -> bool:
    """Return whether it is an error of the connection or of the controller, which another try may not meet."""
    return isinstance(error, Unanswered) or (not isinstance(error, Failure) and failure_of(error, None) is not None)
