"""The sessions of people who have logged in on the page. Pure: who calls says the time.

A session is found by an id that nobody can guess; the browser has it in a cookie. What changes something also needs the
session's second secret, `csrf`, which only a script of the page itself can read.

Rules: a session ends `idle_ms` after its last use, unless something goes on in its name, and `lifetime_ms` after its begin in
any case. Each login begins a new one, with a new id: an id that was known before is worth nothing. Bounded: beyond `user_limit`
sessions of one user that user's oldest ends; beyond `limit` none begins.
Invariant: the secrets are in no repr.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from client.admin.delegation_tokens import Token
    from runtime.randomness import Randomness
    from web.access.held_tokens import HeldTokens
    from web.access.identity import Identity

SECRET_BYTES: Final = 32


class TooManySessions(Exception):
    """No session can begin."""


@dataclass(slots=True, eq=False)
class Session:
    """`begun_ms` and `used_ms` are of a monotonic clock. `token` is the delegation token that is its login, if it is one,
    `held` the tokens of a provider if they are. `under_way` is what goes on in its name: while something does the session is in
    use, and each is called, to end in order, before the login ends."""

    identity: Identity
    begun_ms: int
    used_ms: int
    session_id: str = field(repr=False)
    csrf: str = field(repr=False)
    token: Token | None = None
    held: HeldTokens | None = None
    under_way: dict[object, Callable[[], Awaitable[None]]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    idle_ms: int = 30 * 60_000
    lifetime_ms: int = 24 * 3_600_000
    limit: int = 1_000
    user_limit: int = 20


class Sessions:
    def __init__(self, randomness: Randomness, limits: SessionLimits) -> None:
        self.limits = limits
        self._randomness = randomness
        self._by_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, identity: Identity, now_ms: int) -> tuple[Session, list[Session]]:
        """Return a new session, and those that have ended for it. Raises TooManySessions."""
        ended = self.end_old(now_ms)
        own = [each for each in self._by_id.values() if each.identity.name == identity.name]
        if len(own) >= self.limits.user_limit:
            oldest = min(own, key=lambda each: each.used_ms)
            self.end(oldest)
            ended.append(oldest)
        if len(self._by_id) >= self.limits.limit:
            raise TooManySessions
        session = Session(identity, now_ms, now_ms, new_secret(self._randomness), new_secret(self._randomness))
        self._by_id[session.session_id] = session
        return session, ended

    def find(self, session_id: str, now_ms: int, *, is_use: bool = True) -> Session | None:
        """Return the session of this id. Without `is_use` its idle time goes on."""
        session = self._by_id.get(session_id)
        if session is None or self._has_ended(session, now_ms):
            return None
        if is_use:
            session.used_ms = now_ms
        return session

    def end(self, session: Session) -> None:
        self._by_id.pop(session.session_id, None)

    def end_old(self, now_ms: int) -> list[Session]:
        """End the sessions whose time is over, and return them."""
        old = [each for each in self._by_id.values() if self._has_ended(each, now_ms)]
        for each in old:
            self.end(each)
        return old

    def all(self) -> list[Session]:
        return list(self._by_id.values())

    def is_used(self, identity: Identity) -> bool:
        """Return whether a session has this login."""
        return any(each.identity == identity for each in self._by_id.values())

    def _has_ended(self, session: Session, now_ms: int) -> bool:
        limits = self.limits
        is_idle = not session.under_way and now_ms - session.used_ms >= limits.idle_ms
        return is_idle or now_ms - session.begun_ms >= limits.lifetime_ms


def new_secret(randomness: Randomness) -> str:
    """Return a text that nobody can guess, of letters, digits, "-" and "_"."""
    return base64.urlsafe_b64encode(randomness.randbytes(SECRET_BYTES)).rstrip(b"=").decode()
