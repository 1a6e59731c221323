"""The delegation tokens of the cluster: read from the store, kept current by its notifications, and written to it.

The owner of the nodes below /delegation_token. Any broker makes, renews and ends tokens; the controller's removes those whose
time is over.

Rules: everything is read at the start and with each new session, then the notifications are processed in order; each broker
removes those that are old enough to have been seen by all. What clients make the broker keep has a limit in bytes.
Invariants: a change of this broker can be read here when it returns. No login by an expired token succeeds, also before it
is removed. No HMAC is stored or logged.
Source: Kafka DelegationTokenManagerZk, DelegationTokenCache, KafkaController (token cleaning); KIP-48.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata.store import delegation_tokens as nodes
from metadata.store.any_session import in_any_session
from metadata.store.delegation_tokens import TokenNode
from metadata.store.port import SessionEvent, StoreError, WatchEvent
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import uuid_to_text
from runtime.randomness import uuid_bytes
from security.delegation_token import DelegationToken, KnownToken, TokenTable, TokenTimes, expired, issued, renewed
from security.principal import Principal

if TYPE_CHECKING:
    from config.broker import BrokerSettings
    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.randomness import Randomness
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

NO_SESSION: Final = 0
PURGE_PAUSE_MS: Final = 60_000
# A node of ZooKeeper has no more than a megabyte.
NODE_BYTES_MAX: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """`secret` makes the HMACs; the controller removes expired tokens once in `check_interval_ms`."""

    secret: str
    times: TokenTimes
    check_interval_ms: int
    max_bytes: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> TokenSettings | None:
        """Return None when the settings enable no tokens."""
        secret = settings.delegation_token_secret_key or settings.delegation_token_master_key
        if secret is None or not secret.value:
            return None
        return cls(
            secret.value,
            TokenTimes(settings.delegation_token_max_lifetime_ms, settings.delegation_token_expiry_time_ms),
            settings.delegation_token_expiry_check_interval_ms,
            settings.barnabas_delegation_token_max_bytes,
        )

    def __repr__(self) -> str:
        return f"<TokenSettings {self.times}>"


class DelegationTokens:
    """`start` before clients are served."""

    def __init__(
        self,
        settings: TokenSettings,
        store: Store,
        clock: Clock,
        randomness: Randomness,
        tasks: TaskScope,
        *,
        is_controller: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._tasks = tasks
        self._is_controller = is_controller
        self._table = TokenTable(settings.secret)
        self._session_id = NO_SESSION
        self._last_change = -1
        self._purged_ms = clock.monotonic_ms()
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._is_closed = False

    # --- the tokens ---

    def __len__(self) -> int:
        return len(self._table)

    @property
    def kept_bytes(self) -> int:
        """How much the tokens occupy in the store."""
        return self._table.kept_bytes

    def all(self) -> Iterable[KnownToken]:
        return self._table

    def for_login(self, token_id: str) -> KnownToken | None:
        """Return the token with which a client may log in; None for one that is not known or has expired."""
        known = self._table.by_id(token_id)
        return None if known is None or known.token.has_expired(self._clock.wall_ms()) else known

    # --- changing them ---

    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], lifetime_ms: int
    ) -> KnownToken:
        """Make a token, and return it. Raises KafkaError when there is no room, StoreError."""
        async with self._writing:
            token_id = uuid_to_text(uuid_bytes(self._randomness))
            now_ms = self._clock.wall_ms()
            token = issued(token_id, owner, requester, renewers, lifetime_ms, self._settings.times, now_ms)
            node_bytes = len(_node(token).encode())
            if node_bytes > NODE_BYTES_MAX:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The token has too many renewers.")
            if self._table.kept_bytes + node_bytes > self._settings.max_bytes:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    "There are too many delegation tokens: barnabas.delegation.token.max.bytes.",
                )
            known = await self._write(token)
        logger.info("delegation token created: token_id=%s principal=%r", token_id, str(owner))
        return known

    async def renew(self, hmac: bytes, principal: Principal, period_ms: int) -> int:
        """Renew the token with this HMAC, and return its new expiry time. Raises KafkaError, StoreError."""
        async with self._writing:
            token = self._find(hmac)
            changed = renewed(token, principal, period_ms, self._settings.times, self._clock.wall_ms())
            if isinstance(changed, ErrorCode):
                raise KafkaError(changed)
            await self._write(changed)
        logger.info("delegation token renewed: token_id=%s principal=%r", token.token_id, str(principal))
        return changed.expires_ms

    async def expire(self, hmac: bytes, principal: Principal, period_ms: int) -> int:
        """Set the end of the token with this HMAC, or remove it, and return its expiry time. Raises KafkaError, StoreError."""
        async with self._writing:
            token, now_ms = self._find(hmac), self._clock.wall_ms()
            changed = expired(token, principal, period_ms, now_ms)
            if isinstance(changed, ErrorCode):
                raise KafkaError(changed)
            if changed is None:
                await self._remove(token.token_id)
            else:
                await self._write(changed)
        logger.info("delegation token ended: token_id=%s principal=%r", token.token_id, str(principal))
        return now_ms if changed is None else changed.expires_ms

    def _find(self, hmac: bytes) -> DelegationToken:
        known = self._table.by_hmac(hmac)
        if known is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return known.token

    async def _write(self, token: DelegationToken) -> KnownToken:
        node = _node(token)
        await nodes.write_token(self._store, node)
        return self._table.put(token, len(node.encode()))

    async def _remove(self, token_id: str) -> None:
        await nodes.remove_token(self._store, token_id)
        self._table.remove(token_id)

    # --- reading, and processing notifications ---

    async def start(self) -> None:
        """Read all tokens, and process changes from then on. Raises StoreError, but retries when the session ends."""
        self._store.subscribe(self._on_session)
        await in_any_session(lambda: nodes.ensure_token_paths(self._store))
        await in_any_session(self._read_all)
        self._tasks.spawn(self._remove_expired_at_times(), name="remove expired delegation tokens")

    def close(self) -> None:
        """Stop processing changes."""
        self._is_closed = True

    async def _read_all(self) -> None:
        async with self._reading:
            session_id = self._store.session().session_id
            if session_id == self._session_id:
                return  # it was only disconnected: its watches remain
            # The position first, then the tokens: a change in between is read twice, never missed.
            self._last_change, _ = await nodes.changed_tokens(self._store, -1, self._on_watch)
            found = await nodes.read_tokens(self._store)
            self._table.keep_only(found)
            for node in found.values():
                self._put(node)
            self._session_id = session_id

    async def _follow(self) -> None:
        async with self._reading:
            last, changed = await nodes.changed_tokens(self._store, self._last_change, self._on_watch)
            found = await nodes.read_tokens(self._store, changed)
            for token_id in changed:
                if token_id in found:
                    self._put(found[token_id])
                else:
                    self._table.remove(token_id)
            self._last_change = last

    def _put(self, node: TokenNode) -> None:
        try:
            token = _token(node)
        except ValueError as error:
            logger.warning("delegation token ignored: token_id=%s error=%s", node.token_id, str(error))
            self._table.remove(node.token_id)
        else:
            self._table.put(token, len(node.encode()))

    async def _on_changes(self) -> None:
        try:
            await self._follow()
        except StoreError as error:
            self._session_id = NO_SESSION  # the watch may be lost: everything is read with the next session
            logger.warning("changes of delegation tokens not watched: error=%s", type(error).__name__)
        else:
            await self._purge()

    async def _purge(self) -> None:
        """Remove old notifications. After a failure the next call, or another broker, removes them."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._purged_ms >= PURGE_PAUSE_MS:
            self._purged_ms = now_ms
            try:
                await nodes.purge_token_changes(self._store, self._clock.wall_ms())
            except StoreError as error:
                logger.info("old notifications of delegation tokens not removed: error=%s", type(error).__name__)

    async def _on_new_session(self) -> None:
        try:
            await self._read_all()
        except StoreError as error:
            logger.warning("delegation tokens not read: error=%s", type(error).__name__)

    def _on_watch(self, _event: WatchEvent) -> None:
        if not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_changes(), name="process changed delegation tokens")

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and not self._is_closed and not self._tasks.is_closed:
            self._tasks.spawn(self._on_new_session(), name="read delegation tokens")

    # --- expiry ---

    async def _remove_expired_at_times(self) -> None:
        while not self._is_closed:
            await asyncio.sleep(self._settings.check_interval_ms / 1000)
            if self._is_controller():
                await self.remove_expired()

    async def remove_expired(self) -> None:
        """Remove the tokens whose time is over. After a failure they remain until the next time."""
        try:
            for token_id in self._table.expired_ids(self._clock.wall_ms()):
                async with self._writing:
                    known = self._table.by_id(token_id)
                    if known is not None and known.token.has_expired(self._clock.wall_ms()):
                        await self._remove(token_id)
                        logger.info("delegation token expired: token_id=%s", token_id)
        except StoreError as error:
            logger.warning("expired delegation tokens not removed: error=%s", type(error).__name__)


def _node(token: DelegationToken) -> TokenNode:
    return TokenNode(
        token_id=token.token_id,
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=tuple(map(str, token.renewers)),
        issued_ms=token.issued_ms,
        max_ms=token.max_ms,
        expires_ms=token.expires_ms,
    )


def _token(node: TokenNode) -> DelegationToken:
    """Raises ValueError when a principal has no type."""
    return DelegationToken(
        token_id=node.token_id,
        owner=Principal.parse(node.owner),
        requester=Principal.parse(node.requester),
        renewers=tuple(map(Principal.parse, node.renewers)),
        issued_ms=node.issued_ms,
        max_ms=node.max_ms,
        expires_ms=node.expires_ms,
    )
