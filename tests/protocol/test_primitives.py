"""uuids, strings and variable-length integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import varint
from protocol.primitives import (
    ONE_UUID,
    ZERO_UUID,
    DecodeError,
    EncodeError,
    decode_nullable_string,
    encode_nullable_string,
    uuid_from_text,
    uuid_to_text,
)


def test_uuid_text_as_kafka_writes_it() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(ONE_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(bytes(range(0xF0, 0x100))) == "8PHy8_T19vf4-fr7_P3-_w"
    assert uuid_from_text("8PHy8_T19vf4-fr7_P3-_w") == bytes(range(0xF0, 0x100))
    assert uuid_from_text("8PHy8_T19vf4-fr7_P3-_w==") == bytes(range(0xF0, 0x100))


@given(st.binary(min_size=16, max_size=16))
def test_uuid_round_trip(uuid: bytes) -> None:
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "A", "AAAA", "!" * 22, "A" * 23, "A" * 24, "8PHy8/T19vf4+fr7/P3+/w", "é" * 22])
def test_not_a_uuid(text: str) -> None:
    with pytest.raises(DecodeError):
        uuid_from_text(text)


def test_a_uuid_has_16_bytes() -> None:
    with pytest.raises(EncodeError):
        uuid_to_text(b"short")


@pytest.mark.parametrize(
    ("value", "wire"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
     (2097151, "ffff7f"), (2097152, "80808001"), (2**31 - 1, "ffffffff07"), (2**32 - 1, "ffffffff0f")],
)  # fmt: skip
def test_known_uvarints(value: int, wire: str) -> None:
    assert varint.encode_uvarint(value).hex() == wire
    assert varint.decode_uvarint(bytes.fromhex("ff" + wire + "ff"), 1) == (value, 1 + len(wire) // 2)


@pytest.mark.parametrize(
    ("value", "wire"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f"),
     (-(2**31), "ffffffff0f")],
)  # fmt: skip
def test_known_varints(value: int, wire: str) -> None:
    assert varint.encode_varint(value).hex() == wire == varint.encode_varlong(value).hex()
    assert varint.decode_varint(bytes.fromhex(wire), 0) == (value, len(wire) // 2)


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    wire = varint.encode_uvarint(value)
    assert varint.decode_uvarint(memoryview(wire), 0) == (value, len(wire))
    if len(wire) > 1:
        assert varint.continue_uvarint(wire, 1, wire[0]) == (value, len(wire))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_round_trip(value: int) -> None:
    wire = varint.encode_varlong(value)
    assert varint.decode_varlong(wire, 0) == (value, len(wire))
    assert varint.varint_size(value) == len(wire)


@given(st.integers(-(2**31), 2**31 - 1))
def test_varint_round_trip(value: int) -> None:
    wire = varint.encode_varint(value)
    assert varint.decode_varint(wire, 0) == (value, len(wire))


@given(st.binary(max_size=12))
def test_any_bytes_are_a_varint_or_refused(data: bytes) -> None:
    for decode, longest in ((varint.decode_uvarint, 5), (varint.decode_varint, 5), (varint.decode_varlong, 10)):
        try:
            _, end = decode(data, 0)
        except DecodeError:
            assert all(byte > 127 for byte in data[:longest])
        else:
            assert 1 <= end <= longest


def test_numbers_that_do_not_fit() -> None:
    for encode, value in (
        (varint.encode_uvarint, -1),
        (varint.encode_uvarint, 2**32),
        (varint.encode_varint, 2**31),
        (varint.encode_varlong, -(2**63) - 1),
    ):
        with pytest.raises(EncodeError):
            encode(value)


@given(st.none() | st.text(max_size=50))
def test_nullable_string_round_trip(text: str | None) -> None:
    wire = encode_nullable_string(text)
    assert decode_nullable_string(b"xx" + wire + b"yy", 2) == (text, 2 + len(wire))


def test_malformed_strings() -> None:
    for data in (b"", b"\x00", b"\x00\x05abc"):
        with pytest.raises(DecodeError):
            decode_nullable_string(data, 0)
    for text in ("\udc80", "x" * 32768):
        with pytest.raises(EncodeError):
            encode_nullable_string(text)
