"""The randomness interface: the source of ids, jitter and shuffles, so that a simulation repeats from its seed."""

from __future__ import annotations

import random
from collections.abc import MutableSequence
from typing import Any, Protocol


class Randomness(Protocol):
    """The part of `random.Random` that a broker needs; a `random.Random(seed)` fits it."""

    def randbytes(self, n: int) -> bytes: ...

    def randrange(self, start: int, stop: int) -> int: ...

    def shuffle(self, x: MutableSequence[Any]) -> None: ...


def system_randomness() -> Randomness:
    """Randomness of the operating system, fit for ids that must not be guessed."""
    return random.SystemRandom()


def uuid_bytes(randomness: Randomness) -> bytes:
    """A version 4 UUID as 16 bytes whose base64 form does not start with '-' (Kafka's Uuid.randomUuid)."""
    while True:
        raw = bytearray(randomness.randbytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        if raw[0] >> 2 != 62:  # 62 is '-' in the URL-safe alphabet: command lines would read an option
            return bytes(raw)
