"""What all requests about messages share: the budget of reading, and how many searches and followers run at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from web.messages.budget import Places, ReadBudget

if TYPE_CHECKING:
    from config.web import WebSettings
    from web.surroundings import Surroundings

_LARGE: Final = 4


@dataclass(frozen=True, slots=True)
class MessageParts:
    """`large` is waited for by who reads one record whole, which may take much memory."""

    budget: ReadBudget
    searches: Places
    followers: Places
    large: asyncio.Semaphore
    max_search_ms: int

    @classmethod
    def of(cls, settings: WebSettings, surroundings: Surroundings) -> MessageParts:
        return cls(
            ReadBudget(surroundings.clock, settings.barnabas_web_search_bytes_per_second),
            Places(settings.barnabas_web_search_max, "searches and downloads", "barnabas.web.search.max"),
            Places(settings.barnabas_web_follow_max, "live views", "barnabas.web.follow.max"),
            asyncio.Semaphore(_LARGE),
            settings.barnabas_web_search_max_ms,
        )
