"""A login at a provider that is under way: what the browser has in a cookie until it comes back. Pure.

The cookie has everything, so that nobody who begins logins fills the memory of this process; its signature shows that the
process has made it. It goes along with the provider's redirect, which comes from another site, and is worth nothing afterwards.

    state       comes back with the browser: the login was begun here, in this browser
    nonce       comes back in the provider's token: the token was made for this login
    verifier    only who has it can exchange the code (PKCE)

Source: RFC 6749, RFC 7636; OpenID Connect Core 1.0; RFC 9700.
"""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from web.access.sessions import new_secret

if TYPE_CHECKING:
    from runtime.randomness import Randomness

LIFETIME_MS: Final = 10 * 60_000
PAGE: Final = "/ui/"
NEXT_CHARACTERS_MAX: Final = 1_000
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Attempt:
    """`next` is the view to which the browser goes afterwards. `begun_ms` is of the wall clock."""

    next: str
    begun_ms: int
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)

    @classmethod
    def begin(cls, next_: str, randomness: Randomness, now_ms: int) -> Attempt:
        secrets = [new_secret(randomness) for _ in range(3)]
        return cls(page_of(next_), now_ms, *secrets)

    @property
    def challenge(self) -> str:
        challenge: str = create_s256_code_challenge(self.verifier)
        return challenge

    def is_of(self, state: str, now_ms: int) -> bool:
        """Return whether a browser that comes back with `state` now belongs to it."""
        return hmac.compare_digest(self.state.encode(), state.encode()) and 0 <= now_ms - self.begun_ms < LIFETIME_MS


class AttemptCookies:
    """Writes and reads the texts of cookies."""

    def __init__(self, randomness: Randomness) -> None:
        self._key = randomness.randbytes(_KEY_BYTES)

    def text(self, attempt: Attempt) -> str:
        content = base64.urlsafe_b64encode(json.dumps(asdict(attempt)).encode()).decode()
        return f"{content}.{self._signature(content)}"

    def attempt(self, text: str) -> Attempt | None:
        """Return the attempt of a cookie, None for one that was not written here."""
        content, _, signature = text.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(content).encode()):
            return None
        found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(content))
        return Attempt(**found)

    def _signature(self, content: str) -> str:
        return hmac.digest(self._key, content.encode(), "sha256").hex()


def page_of(next_: str) -> str:
    """Return an address of the page: `next_` where it is one, else its first view."""
    is_page = next_.startswith(PAGE) and "\\" not in next_ and ".." not in next_ and next_.isprintable()
    return next_ if is_page and len(next_) <= NEXT_CHARACTERS_MAX else PAGE
