"""Bugs of this project's own producer and group member: the checkers find those as well."""

from __future__ import annotations

from typing import Any

from client.membership.classic import ClassicMember
from client.membership.contract import Phase
from client.producing.batch import ProducerBatch
from client.producing.core import ProducerCore
from client.producing.partition_queue import PartitionQueue
from tests.simulation.mutants import Mutant, Patches


def _sequence_reused_behind_a_repetition(patches: Patches) -> None:
    def rewind(original: Any) -> Any:
        def done(self: PartitionQueue[Any], batch: ProducerBatch[Any]) -> None:
            original(self, batch)
            if batch.attempts_count > 1 and not self._sent:
                self._next_sequence = batch.base_sequence

        return done

    patches.replace(PartitionQueue, "done", rewind)


def _commit_without_flush(patches: Patches) -> None:
    patches.replace(ProducerCore, "has_batches", lambda original: property(lambda self: False))


def _assignment_used_after_revocation(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def _revoke(self: ClassicMember, *, is_lost: bool) -> None:
            self.phase = Phase.OUT

        return _revoke

    patches.replace(ClassicMember, "_revoke", keep)


PRODUCERS = (
    Mutant(
        "sequence-reused-behind-a-repetition",
        "lost writes: a batch gets the sequence number of one that was repeated, and counts as its copy",
        _sequence_reused_behind_a_repetition,
    ),
    Mutant("commit-without-flush", "lost writes: a commit does not wait for its batches", _commit_without_flush),
)
MEMBERS = (
    Mutant(
        "assignment-used-after-revocation",
        "groups: a member keeps its partitions through a rebalance",
        _assignment_used_after_revocation,
    ),
)
