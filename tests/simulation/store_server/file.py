"""The file behind the committed tree, in memory: what `metadata.store.committed_tree.TreeFile` promises, and its faults.

Rules: a commit is durable when it has returned, whole or not at all. A crash loses what has not been committed: nobody is
told of a commit that the process did not live to hear of. A full disk refuses.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from metadata.store.node_map import ROOT, Node, Nodes
from metadata.store.node_tree import NodeTree, Staged, StoredSession


class StoreDisk:
    """What a machine's disk holds. It outlives the processes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": ROOT}
        self.sessions: dict[int, StoredSession] = {}
        self.zxid = 0
        self.is_full = False
        self.commits_count = self.shared_commits_count = self.refused_count = 0
        self.written: set[bytes] = set()
        """The data of every node that there has ever been."""
        self.on_kept: Callable[[Staged], None] = lambda staged: None
        """Told of each transaction when it is durable."""

    def keep(self, staged: Staged) -> None:
        self.zxid = staged.zxid
        for path, node in staged.nodes.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
                self.written.add(node.data)
        if staged.opened_session is not None:
            self.sessions[staged.opened_session.session_id] = staged.opened_session
        if staged.closed_session_id is not None:
            del self.sessions[staged.closed_session_id]
        self.on_kept(staged)

    def copied(self) -> StoreDisk:
        """As a backup has it."""
        copy = StoreDisk()
        copy.nodes, copy.sessions, copy.zxid = dict(self.nodes), dict(self.sessions), self.zxid
        copy.written = set(self.written)
        return copy


class SimStoreFile:
    """A `TreeFile` on a disk."""

    def __init__(self, disk: StoreDisk) -> None:
        self._disk = disk

    def load(self) -> NodeTree:
        nodes = Nodes()
        for path in sorted(self._disk.nodes):  # parents first
            nodes.put(path, self._disk.nodes[path])
        return NodeTree(nodes, self._disk.zxid, self._disk.sessions.values())

    def commit(self, batch: Sequence[Staged]) -> None:
        if self._disk.is_full:
            self._disk.refused_count += 1
            raise OSError(errno.ENOSPC, "no space left on device")
        self._disk.commits_count += 1
        self._disk.shared_commits_count += len(batch) > 1
        for staged in batch:
            self._disk.keep(staged)

    def close(self) -> None:
        """Nothing is open."""
