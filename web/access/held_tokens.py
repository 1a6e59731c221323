"""The tokens of a provider that a session lives by: until when, and when they are replaced. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from security.sasl.oauth_login import LoginToken, RefreshWindow

if TYPE_CHECKING:
    from client.settings.values import BearerSettings

_WINDOW: Final = RefreshWindow(min_period_s=0, buffer_s=60)


@dataclass(frozen=True, slots=True)
class HeldTokens:
    """`refresh` gives the next tokens, None where the provider has not given it. Times are of the wall clock."""

    refresh: str | None = field(repr=False)
    replaced_ms: int
    expires_ms: int

    @classmethod
    def of(cls, bearer: BearerSettings, refresh: str | None, now_ms: int) -> HeldTokens:
        """`bearer` has the access token. Raises ValueError for one without an end."""
        token = LoginToken.parse(bearer.token.encode(), bearer.name_claim)
        return cls(refresh, now_ms + _WINDOW.pause_ms(token, now_ms), token.expires_ms)
