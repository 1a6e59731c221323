"""What holds inside the server, over its restarts: zxids rise, every ephemeral node belongs to an open session, and what a
client sees is on the disk."""

from __future__ import annotations

from collections.abc import Callable

from metadata.store.committed_tree import CommittedTree
from metadata.store.node_tree import Staged
from tests.simulation.store_server.file import StoreDisk


class ServerChecker:
    def __init__(
        self, report: Callable[[str], None], count: Callable[[str], None], disk: Callable[[], StoreDisk]
    ) -> None:
        self._report = report
        self._count = count
        self._disk = disk
        self._tree: CommittedTree | None = None
        self._zxid = 0
        self._seen_zxid = 0

    def on_started(self, tree: CommittedTree) -> None:
        self._tree = tree
        if tree.zxid < max(self._zxid, self._seen_zxid):
            self._report(
                f"the server starts at zxid {tree.zxid}, after {self._zxid}; clients have seen {self._seen_zxid}"
            )
        self._check_ephemerals()
        self._check_children()

    def on_applied(self, staged: Staged) -> None:
        if staged.zxid <= self._zxid:
            self._report(f"zxid {staged.zxid} after {self._zxid}")
        self._zxid = staged.zxid
        if staged.closed_session_id is not None:
            self._count("sessions closed")
            if staged.nodes:
                self._count("sessions closed with ephemeral nodes")
        self._check_ephemerals()

    def _check_ephemerals(self) -> None:
        assert self._tree is not None
        for path, owner in self._tree.tree.nodes.ephemerals.items():
            if owner not in self._tree.sessions:
                self._report(f"{path} belongs to session {owner:#x}, which is not open")

    def _check_children(self) -> None:
        """A node knows how many children it has."""
        assert self._tree is not None
        nodes = self._tree.tree.nodes
        for path, node in nodes.items():
            count = len(list(nodes.names(path)))
            if node.num_children != count:
                self._report(f"{path} has {count} children, and says {node.num_children}")

    def on_seen(self, client: str, zxid: int) -> None:
        """A client was told of `zxid`."""
        self._seen_zxid = max(self._seen_zxid, zxid)
        if zxid > self._disk().zxid:
            self._report(f"{client} was told of zxid {zxid}, the disk has {self._disk().zxid}")

    def on_data(self, client: str, data: bytes) -> None:
        """A client has read `data`, or its write of it was acknowledged."""
        if data and data not in self._disk().written:
            self._report(f"{client} was told of {data!r}, which is not on the disk")
