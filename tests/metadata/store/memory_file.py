"""A tree's file in memory, and the queue on which its calls run: at once. It outlives its tree, as a disk does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from metadata.store.node_map import Node, Nodes
from metadata.store.node_tree import NodeTree, Staged, StoredSession

T = TypeVar("T")


class MemoryFile:
    """`error` is raised by commits while it is set."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self._nodes: dict[str, Node] = {}
        self._sessions: dict[int, StoredSession] = {}
        self._zxid = 0

    def load(self) -> NodeTree:
        nodes = Nodes()
        for path in sorted(self._nodes):
            nodes.put(path, self._nodes[path])
        return NodeTree(nodes, self._zxid, self._sessions.values())

    def commit(self, batch: Sequence[Staged]) -> None:
        if self.error is not None:
            raise self.error
        for staged in batch:
            for path, node in staged.nodes.items():
                if node is None:
                    self._nodes.pop(path, None)
                else:
                    self._nodes[path] = node
            if staged.opened_session is not None:
                self._sessions[staged.opened_session.session_id] = staged.opened_session
            if staged.closed_session_id is not None:
                self._sessions.pop(staged.closed_session_id, None)
            self._zxid = staged.zxid

    def close(self) -> None:
        """Nothing is open."""


class InlineQueue:
    """What a tree needs of a disk queue."""

    async def run(self, job: Callable[[], T]) -> T:
        return job()

    async def drain(self) -> None:
        """Nothing waits."""

    async def close(self) -> None:
        """Nothing runs."""

    def write(self, *_: Any) -> None:
        raise AssertionError("a tree commits by `run`")

    write_now = write
