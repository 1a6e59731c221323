"""What all connections of a server share.

Rules: watch events go out as a transaction is applied, in the order of its operations. Who may not read a node hears nothing of
it; a one-shot watch on it is used up.
Source: ZooKeeper WatchManager.triggerWatch, NIOServerCnxn.process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from metadata.store.committed_tree import CommittedTree
from metadata.store.node_acls import permits
from metadata.store.node_tree import Staged
from metadata.store.port import Permission
from metadata.store.server.authentication import StoreUsers
from metadata.store.server.client import Client
from metadata.store.server.four_letter_words import ServerFacts, Statistics
from metadata.store.server.reads import Reads
from metadata.store.server.sessions import SessionLimits, Sessions
from metadata.store.server.watches import WatchRegistry
from metadata.store.zookeeper.wire import REQUEST_BYTES_MAX
from runtime.clock import Clock
from runtime.randomness import Randomness

UNNAMED_RELEASE: Final = "0"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """`frame_bytes_max` bounds a request (jute.maxbuffer). `settings` and `release` are for four-letter words."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    authentication: StoreUsers = field(default_factory=StoreUsers)
    frame_bytes_max: int = REQUEST_BYTES_MAX
    settings: Sequence[tuple[str, object]] = ()
    release: str = UNNAMED_RELEASE


class Service:
    """A tree and the sessions on it. The tree's owner closes it."""

    def __init__(self, tree: CommittedTree, clock: Clock, randomness: Randomness, options: ServiceOptions) -> None:
        self.tree = tree
        self.clock = clock
        self.randomness = randomness
        self.options = options
        self.sessions = Sessions(tree, clock, randomness, options.limits)
        self.watches: WatchRegistry[Client] = WatchRegistry()
        self.reads = Reads(tree.tree, self.watches)
        self.statistics = Statistics()
        self._begun_ms = clock.monotonic_ms()
        tree.subscribe(self._tell)

    def leave(self, client: Client) -> None:
        """The client's connection is closed."""
        self.sessions.leave(client)
        self.watches.forget(client)

    def facts(self) -> ServerFacts:
        return ServerFacts(
            release=self.options.release,
            zxid=self.tree.zxid,
            nodes=self.tree.tree.nodes,
            watches_count=len(self.watches),
            sessions_count=len(self.tree.sessions),
            uptime_ms=self.clock.monotonic_ms() - self._begun_ms,
            statistics=self.statistics,
            clients=list(self.sessions),
            settings=self.options.settings,
        )

    def _tell(self, staged: Staged) -> None:
        for event in staged.events:
            clients = self.watches.take(event)
            if clients:
                node = staged.nodes.get(event.path)
                acl = staged.deleted_acls[event.path] if node is None else node.acl
                for client in clients:
                    if permits(acl, Permission.READ, frozenset(client.identities)):
                        client.tell(event)
