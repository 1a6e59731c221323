"""RC2 in CBC mode, decryption alone: with a key of 40 bits it protects the certificates of PKCS12 stores of older programs.

`cryptography` has RC2 with 128 effective bits only. A store has few kilobytes of it.
Pure. Source: RFC 2268.
"""

from __future__ import annotations

import struct
from typing import Final

BLOCK_BYTES: Final = 8
_PI: Final = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2179a59f587b34f1361456d8d09817d32"
    "bd8f40eb86b77b0bf09521225c6b4e8254d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb626"
    "6fbf0eda4669075727f21d9bbc944303f811c7f690ef3ee706c3d52fc8661ed708e8eade8052eef784aa72ac354d6a2a"
    "961ad2715a1549744b9fd05e0418a4ecc2e0416e0f51cbcc2491af50a1f47039997c3a8523b8b47afc02365b25559731"
    "2d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a90d38341bab33ffb0bb480c5fb9b1cd2e"
    "c5f3db47e5a59c770aa62068fe7fc1ad"
)
"""PITABLE of the RFC, digits of pi."""
_KEY_BYTES: Final = 128
_WORD: Final = 0xFFFF
_SHIFTS: Final = (1, 2, 3, 5)
_ROUNDS: Final = 16
_ROUNDS_BEFORE_MASHING: Final = (11, 5)
"""In decryption, rounds are counted down; before these ones words of the key are taken away again."""


def decrypted_cbc(key: bytes, initial: bytes, data: bytes, effective_bits: int) -> bytes:
    """Return the blocks of `data` decrypted, with their padding. Its length is a multiple of 8 bytes."""
    words = _expanded(key, effective_bits)
    out = bytearray()
    previous = int.from_bytes(initial)
    for start in range(0, len(data), BLOCK_BYTES):
        block = data[start : start + BLOCK_BYTES]
        out += (int.from_bytes(_decrypted_block(words, block)) ^ previous).to_bytes(BLOCK_BYTES)
        previous = int.from_bytes(block)
    return bytes(out)


def _expanded(key: bytes, effective_bits: int) -> tuple[int, ...]:
    expanded = bytearray(key)
    while len(expanded) < _KEY_BYTES:
        expanded.append(_PI[(expanded[-1] + expanded[-len(key)]) & 0xFF])
    effective_bytes = (effective_bits + 7) // 8
    position = _KEY_BYTES - effective_bytes
    expanded[position] = _PI[expanded[position] & (0xFF >> (8 * effective_bytes - effective_bits))]
    for index in range(position - 1, -1, -1):
        expanded[index] = _PI[expanded[index + 1] ^ expanded[index + effective_bytes]]
    return struct.unpack(f"<{_KEY_BYTES // 2}H", expanded)


def _decrypted_block(words: tuple[int, ...], block: bytes) -> bytes:
    state = list(struct.unpack("<4H", block))
    for number in range(_ROUNDS - 1, -1, -1):
        for index in (3, 2, 1, 0):
            shift = _SHIFTS[index]
            rotated = (state[index] >> shift | state[index] << (16 - shift)) & _WORD
            before, second, third = state[index - 1], state[index - 2], state[index - 3]
            state[index] = (rotated - words[4 * number + index] - (before & second) - (~before & third)) & _WORD
        if number in _ROUNDS_BEFORE_MASHING:
            for index in (3, 2, 1, 0):
                state[index] = (state[index] - words[state[index - 1] & 63]) & _WORD
    return struct.pack("<4H", *state)
