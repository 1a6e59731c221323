"""What all requests about messages share: the budget of reading, and how many searches and followers run at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from web.messages.budget import Places, ReadBudget

if TYPE_CHECKING:
    from config.web import WebSettings
    from web.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class MessageParts:
    """`large` are places for records that are read whole, of which each may take much memory."""

    budget: ReadBudget
    searches: Places
    followers: Places
    large: Places
    max_search_ms: int

    @classmethod
    def of(cls, settings: WebSettings, surroundings: Surroundings) -> MessageParts:
        return cls(
            ReadBudget(surroundings.clock, settings.barnabas_web_search_bytes_per_second),
            Places(settings.barnabas_web_search_max, "searches and downloads", "barnabas.web.search.max"),
            Places(settings.barnabas_web_follow_max, "live views", "barnabas.web.follow.max"),
            Places(_LARGE, "readings of one record", "the server"),
            settings.barnabas_web_search_max_ms,
        )


_LARGE = 4
