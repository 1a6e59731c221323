"""Client instances: what each client that pushes metrics was asked for, when it asked and pushed, and whether it may again.

A client instance is one producer, consumer or admin client in its life; it has an id, which the broker chooses when it first
asks. Any broker takes its requests: one that does not know it starts to.

Rules: pure; times are monotonic, in milliseconds. An instance is forgotten when the connection that it came with is closed,
when it is silent for three of its intervals (a minute at least), and, of more than INSTANCES_MAX, when it is the one that is
silent for the longest. A request that is too early is refused: a client that has just asked may push once at once.
Source: KIP-714; Kafka 4.3 ClientMetricsManager, ClientMetricsInstance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.records.compression import Compression

if TYPE_CHECKING:
    from broker.telemetry.subscriptions import Asked, ClientFacts, Subscriptions

INSTANCES_MAX = 16_384
SILENCE_MIN_MS = 60_000
INTERVALS_OF_SILENCE = 3
_MAY_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client asks at once what it is to push."""
CODECS = frozenset(Compression)


@dataclass(slots=True)
class Instance:
    """`asked_ms` and `pushed_ms` are the times of the last requests that were not too early, None before the first."""

    facts: ClientFacts
    connection_id: str
    asked: Asked
    heard_ms: int
    asked_ms: int | None = None
    pushed_ms: int | None = None
    is_terminating: bool = False
    error: ErrorCode = ErrorCode.NONE
    """Of its last request."""

    def take_ask(self, now_ms: int) -> ErrorCode:
        last_ms = max((each for each in (self.asked_ms, self.pushed_ms) if each is not None), default=None)
        if last_ms is None or now_ms - last_ms >= self.asked.interval_ms:
            self.asked_ms = now_ms
        elif self.error not in _MAY_ASK_AGAIN:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.error = ErrorCode.NONE
        return ErrorCode.NONE

    def take_push(
        self, subscription_id: int, codec: int, size_bytes: int, max_bytes: int, *, is_last: bool, now_ms: int
    ) -> ErrorCode:
        """Return whether what is pushed is to be read; the instance remembers it."""
        self.error = self._push_error(subscription_id, codec, size_bytes, max_bytes, is_last=is_last, now_ms=now_ms)
        self.is_terminating = is_last
        return self.error

    def _push_error(
        self, subscription_id: int, codec: int, size_bytes: int, max_bytes: int, *, is_last: bool, now_ms: int
    ) -> ErrorCode:
        if self.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not self._push_is_due(now_ms) and not is_last:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != self.asked.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size_bytes > max_bytes else ErrorCode.NONE

    def _push_is_due(self, now_ms: int) -> bool:
        has_asked_since = self.asked_ms is not None and (self.pushed_ms is None or self.asked_ms > self.pushed_ms)
        if has_asked_since or self.pushed_ms is None or now_ms - self.pushed_ms >= self.asked.interval_ms:
            self.pushed_ms = now_ms
            return True
        return False

    @property
    def silence_max_ms(self) -> int:
        return max(SILENCE_MIN_MS, INTERVALS_OF_SILENCE * self.asked.interval_ms)


class Instances:
    """Those of this broker, by the 16 bytes of their ids."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._by_id: dict[bytes, Instance] = {}  # the one that was silent for the longest first
        self._by_connection: dict[str, bytes] = {}
        self._swept_ms = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._by_id

    def heard(self, instance_id: bytes, facts: ClientFacts, connection_id: str, now_ms: int) -> Instance:
        """Return the instance that sends a request; when subscriptions have changed it begins anew."""
        self._forget_silent(now_ms)
        known = self._by_id.pop(instance_id, None)
        if known is None or known.asked.version < self._subscriptions.version:
            facts = facts if known is None else known.facts
            known = Instance(facts, connection_id, self._subscriptions.asked(facts, instance_id), now_ms)
            self._by_connection[connection_id] = instance_id
        known.heard_ms = now_ms
        self._by_id[instance_id] = known
        if len(self._by_id) > INSTANCES_MAX:
            self._forget(next(iter(self._by_id)))
        return known

    def is_connected(self, connection_id: str) -> bool:
        """Return whether `disconnected` finds something to forget."""
        return connection_id in self._by_connection

    def disconnected(self, connection_id: str) -> None:
        instance_id = self._by_connection.get(connection_id)
        if instance_id is not None:
            self._forget(instance_id)
            self._by_connection.pop(connection_id, None)

    def _forget_silent(self, now_ms: int) -> None:
        """Once a minute."""
        if now_ms - self._swept_ms < SILENCE_MIN_MS:
            return
        self._swept_ms = now_ms
        silent = [
            instance_id for instance_id, each in self._by_id.items() if now_ms - each.heard_ms > each.silence_max_ms
        ]
        for instance_id in silent:
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        gone = self._by_id.pop(instance_id, None)
        if gone is not None and self._by_connection.get(gone.connection_id) == instance_id:
            del self._by_connection[gone.connection_id]
