"""Seeded damage to valid bytes, as faulty or hostile peers do it."""

from __future__ import annotations

import random

_TELLING = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80", b"\x80\x80\x01")


def mutate(data: bytes, source: random.Random) -> bytes:
    """`data` with one to four damages: flipped bits, telling bytes, numbers, cuts, insertions, repeated parts."""
    damaged = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        size = len(damaged)
        position = source.randint(0, size)
        kind = source.randrange(8)
        if kind == 0:
            del damaged[position:]
        elif kind == 1:
            damaged[position:position] = source.randbytes(source.randint(1, 8))
        elif kind == 2:
            del damaged[position : position + source.randint(1, 8)]
        elif kind == 3:
            damaged[position:position] = damaged[position : position + source.randint(1, 16)]
        elif kind == 4:
            number = source.choice((-1, 0, 1, 127, 500_001, 0x7FFFFFFF, -(1 << 31), source.getrandbits(31)))
            damaged[position : position + 4] = number.to_bytes(4, "big", signed=True)
        elif kind == 5:
            damaged[position : position + 5] = source.choice(_VARINTS)
        elif position < size and kind == 6:
            damaged[position] = source.choice(_TELLING)
        elif position < size:
            damaged[position] ^= 1 << source.randrange(8)
    return bytes(damaged)
