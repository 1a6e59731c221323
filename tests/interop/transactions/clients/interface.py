"""Producers and consumers of several client libraries behind one interface, so that one test of transactions serves them all.

Values are text. A `FencedError` ends a producer for good; after an `AbortableError` it aborts the transaction and goes on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple, Protocol

PATIENCE_S = 60.0
POLL_S = 0.2
TRANSACTION_TIMEOUT_MS = 60_000
SESSION_TIMEOUT_MS = 45_000
MAX_POLL_INTERVAL_MS = 300_000
Offsets = Mapping[tuple[str, int], int]


class FencedError(Exception):
    """A newer producer has the transactional id, or the coordinator has ended the transaction."""


class AbortableError(Exception):
    """The transaction cannot be committed."""


class Record(NamedTuple):
    partition: int
    offset: int
    value: str


class Member(Protocol):
    """A consumer in a group, from committed offsets or the start, that reads committed records."""

    @abstractmethod
    def poll(self) -> list[Record]: ...

    @abstractmethod
    def rewind(self) -> None:
        """Go back to the committed offsets of all partitions that are assigned now."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group. A second time it does nothing."""


class Producer(Protocol):
    """A producer with a transactional id."""

    @abstractmethod
    def init(self) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, *values: str) -> None:
        """Send all, and wait until each is acknowledged."""

    @abstractmethod
    def send_offsets(self, offsets: Offsets, member: Member) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """At once, whatever is open."""


class Client(Protocol):
    """A library, and the cluster that it talks to."""

    name: str
    shortest_poll_interval_ms: int = 6_000
    """After this time without a poll a member can be made to leave: a broker takes no shorter session timeout."""

    @abstractmethod
    def producer(self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Producer: ...

    @abstractmethod
    def member(self, group: str, topic: str, max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS) -> Member: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def read(self, topic: str, isolation: str) -> list[list[str]]:
        """The values of every partition, each up to where it ends for `isolation`."""
