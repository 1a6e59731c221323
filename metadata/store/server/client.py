"""A client's connection, as the parts of the server know it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from metadata.store.port import WatchEvent
from metadata.store.server.authentication import Identity
from runtime.network.transport import Address


@dataclass(eq=False, slots=True)
class Client:
    """`tell` sends a watch event, `close` closes the connection for a reason. `identities` are who it is, in the order of
    proof."""

    address: Address
    tell: Callable[[WatchEvent], None]
    close: Callable[[str], None]
    connected_ms: int
    identities: tuple[Identity, ...] = ()
    session_id: int = 0
    timeout_ms: int = 0
    received_count: int = 0
    sent_count: int = 0
    outstanding_count: int = 0

    def prove(self, identities: tuple[Identity, ...]) -> None:
        self.identities = tuple(dict.fromkeys(self.identities + identities))
