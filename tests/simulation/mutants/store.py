"""Bugs of a store server: most of them are what a server that answers early, or forgets, would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from metadata.store import committed_tree
from metadata.store.committed_tree import CommittedTree, OnDone, Written
from metadata.store.node_tree import NodeTree, Staged
from metadata.store.port import StoreError
from metadata.store.server.client import Client
from metadata.store.server.sessions import Sessions
from tests.simulation.mutants import Mutant, Patches


def _reply_before_commit(patches: Patches) -> None:
    """The client hears of a write when it is staged."""

    def hasty(original: Any) -> Any:
        def _enqueue(self: CommittedTree, stage: Callable[[], Staged], on_done: OnDone) -> None:
            is_told = False

            def told() -> Staged:
                nonlocal is_told
                staged = stage()
                if staged.nodes and not staged.closed_session_id:
                    is_told = True
                    on_done(Written(staged.zxid, staged.results))
                return staged

            original(self, told, lambda outcome: None if is_told else on_done(outcome))

        return _enqueue

    patches.replace(CommittedTree, "_enqueue", hasty)


def _sessions_forgotten(patches: Patches) -> None:
    def forget(original: Any) -> Any:
        async def open_without(cls: type[CommittedTree], *args: Any, **options: Any) -> CommittedTree:
            opened: CommittedTree = await original(cls, *args, **options)
            opened.tree.sessions.clear()
            opened.tree.abandon_staged()
            return opened

        return open_without

    patches.replace(CommittedTree, "open", forget)


def _ephemerals_stay(patches: Patches) -> None:
    def end_alone(original: Any) -> Any:
        def stage_session_end(self: NodeTree, session_id: int) -> Staged:
            self._open_session_ids.remove(session_id)
            return self._accept(Staged(self._staged_zxid + 1, {}, [], [], closed_session_id=session_id))

        return stage_session_end

    patches.replace(NodeTree, "stage_session_end", end_alone)


def _watch_event_behind_the_reply(patches: Patches) -> None:
    def reply_first(original: Any) -> Any:
        def _finish(self: CommittedTree, write: Any) -> None:
            outcome = write.outcome
            if isinstance(outcome, StoreError):
                write.on_done(outcome)
                return
            self.tree.apply(outcome)
            write.on_done(Written(outcome.zxid, outcome.results))
            for subscriber in self._subscribers:
                subscriber(outcome)

        return _finish

    patches.replace(CommittedTree, "_finish", reply_first)


def _last_of_a_commit_dropped(patches: Patches) -> None:
    def drop(original: Any) -> Any:
        async def _commit(self: CommittedTree, staged: Sequence[Staged]) -> None:
            await original(self, staged[:-1] if len(staged) > 1 else staged)

        return _commit

    patches.replace(CommittedTree, "_commit", drop)


def _full_disk_ends_the_store(patches: Patches) -> None:
    patches.replace(committed_tree, "is_passing", lambda original: lambda error: False)


def _a_refused_commit_is_not_undone(patches: Patches) -> None:
    """Later writes are checked against what the disk has refused."""
    patches.replace(NodeTree, "abandon_staged", lambda original: lambda self: None)


def _refused_end_forgotten(patches: Patches) -> None:
    """A session that its client closes while the disk is full is never looked at again."""

    def forget(original: Any) -> Any:
        def end(self: Sessions, client: Client, on_done: OnDone) -> None:
            self._expiry.forget(client.session_id)
            self._tree.close_session(client.session_id, on_done)

        return end

    patches.replace(Sessions, "end", forget)


STORE = (
    Mutant("refused-end-forgotten", "sessions: one that a full disk keeps open has no end", _refused_end_forgotten),
    Mutant("reply-before-commit", "lost writes: a write is answered before it is on the disk", _reply_before_commit),
    Mutant("sessions-forgotten", "sessions: a restart of the store forgets them", _sessions_forgotten),
    Mutant("ephemerals-stay", "sessions: their ephemeral nodes outlive them", _ephemerals_stay),
    Mutant("event-behind-reply", "watches: a reply shows a change before its event", _watch_event_behind_the_reply),
    Mutant("last-write-dropped", "lost writes: a commit of several leaves out the last", _last_of_a_commit_dropped),
    Mutant("full-disk-is-final", "liveness: a full disk ends the store", _full_disk_ends_the_store),
    Mutant(
        "refused-commit-stays", "phantoms: a commit that was refused is not undone", _a_refused_commit_is_not_undone
    ),
)
