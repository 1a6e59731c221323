"""Bugs of consumer groups: epochs, targets, reconciliation, fencing, records. Each says what it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from client.membership.consumer import ConsumerMember
from coordinator.group import offset_commits
from coordinator.group.assigned.entries import EntryKey, EntryKind
from coordinator.group.assigned.journal import Journal
from coordinator.group.consumer.membership import ConsumerMembership, ConsumerSessionTimer
from coordinator.group.consumer.reconciliation import Reconciliation
from coordinator.group.consumer_operations import ConsumerOperations
from tests.simulation.mutants import Mutant, Patches


def _assigned_before_free(patches: Patches) -> None:
    patches.replace(Reconciliation, "_may_take", lambda original: lambda self, *args: True)


def _revocation_not_awaited(patches: Patches) -> None:
    patches.replace(Reconciliation, "_reports", lambda original: lambda self, partitions: False)


def _epoch_not_bumped(patches: Patches) -> None:
    def skip(original: Any) -> Any:
        def bump_epoch(self: ConsumerMembership, group: Any, journal: Any, why: str, *more: Any) -> None:
            if why != "members removed":
                original(self, group, journal, why, *more)

        return bump_epoch

    patches.replace(ConsumerMembership, "bump_epoch", skip)


def _fenced_commit_accepted(patches: Patches) -> None:
    patches.replace(offset_commits, "check_commit", lambda original: lambda *args, **options: None)


def _not_written(kind: EntryKind) -> Callable[[Patches], None]:
    """Entries of this kind are kept in memory alone."""

    def plant(patches: Patches) -> None:
        def forget(original: Any) -> Any:
            def put(self: Journal, group: Any, key: EntryKey, entry: Any, record: Any = None) -> None:
                if key.kind is kind:
                    group.put(key, entry)
                else:
                    original(self, group, key, entry, record)

            return put

        patches.replace(Journal, "put", forget)

    return plant


def _sessions_never_end(patches: Patches) -> None:
    def ignore(original: Any) -> Any:
        def on_timer(self: ConsumerOperations, key: Any, now_ms: int) -> None:
            if not isinstance(key, ConsumerSessionTimer):
                original(self, key, now_ms)

        return on_timer

    patches.replace(ConsumerOperations, "on_timer", ignore)


def _lost_partitions_kept(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def _lose(self: ConsumerMember) -> None:
            owned = self._owned
            original(self)
            self._owned = owned

        return _lose

    patches.replace(ConsumerMember, "_lose", keep)


GROUPS = (
    Mutant(
        "partition-assigned-before-it-is-free",
        "owners: a member gets a partition that another one has not let go of",
        _assigned_before_free,
    ),
    Mutant("revocation-not-awaited", "owners: what is revoked is free at once", _revocation_not_awaited),
    Mutant("group-epoch-not-bumped", "progress: what a lost member had is given to nobody", _epoch_not_bumped),
    Mutant("commit-of-a-fenced-member-accepted", "epochs: whoever commits may", _fenced_commit_accepted),
    Mutant(
        "reconciliation-not-written",
        "owners: a new coordinator does not know who owns what",
        _not_written(EntryKind.CURRENT),
    ),
    Mutant("target-not-written", "progress: a new coordinator has nothing for anybody", _not_written(EntryKind.TARGET)),
    Mutant("sessions-of-consumers-never-end", "progress: a dead member keeps its partitions", _sessions_never_end),
    Mutant("lost-partitions-kept", "owners: a member that was fenced keeps its partitions", _lost_partitions_kept),
)
