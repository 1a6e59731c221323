"""How many large records are in memory: a record above `SMALL_CHARS` of text takes a place before more of it is read, and gives
it back when the record is stored.

Rules: who has a place waits for nobody else who wants one, so that nobody waits forever; a client that stops in the middle of a
large record loses it (`STALLED_S`).
"""

from __future__ import annotations

import asyncio
from typing import Final

SMALL_CHARS: Final = 1 << 20
PLACES: Final = 2
STALLED_S: Final = 30.0


class LargeRecords:
    """The places of one process."""

    def __init__(self, places: int = PLACES) -> None:
        self._places = asyncio.Semaphore(places)

    async def place(self) -> LargePlace:
        """Return a place when there is one."""
        await self._places.acquire()
        return LargePlace(self._places)


class LargePlace:
    """A place, which is given back once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def give_back(self, _: object = None) -> None:
        """Also the callback of a delivery."""
        if self._places is not None:
            self._places.release()
            self._places = None
