"""Frames out of streams cut anywhere."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.frame import FrameError, FrameReader


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@given(st.lists(st.binary(max_size=90), max_size=8), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_any_cut_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, payloads))
    reader = FrameReader(max_frame_bytes=1000, buffer_bytes=32)
    frames = []
    position = turn = 0
    while position < len(stream):
        place = reader.receive_buffer()
        part = stream[position : position + min(cuts[turn % len(cuts)], len(place))]
        assert part, "there is always room"
        place[: len(part)] = part
        frames += reader.received(len(part))
        position += len(part)
        turn += 1
    assert [bytes(frame) for frame in frames] == payloads


def test_feed_takes_more_than_the_buffer() -> None:
    payloads = [b"a" * 5, b"", b"b" * 500, b"c" * 64, b"d"]
    reader = FrameReader(max_frame_bytes=500, buffer_bytes=64)
    assert [bytes(frame) for frame in reader.feed(b"".join(map(framed, payloads)))] == payloads


def test_large_frame_arrives_in_its_own_place() -> None:
    reader = FrameReader(max_frame_bytes=1000, buffer_bytes=64)
    assert reader.feed(struct.pack(">i", 500) + b"x" * 10) == []
    place = reader.receive_buffer()
    assert len(place) == 490
    place[:] = b"y" * 490
    (frame,) = reader.received(490)
    assert frame == b"x" * 10 + b"y" * 490
    assert len(reader.receive_buffer()) == 64


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, (1 << 31) - 1])
def test_lengths_out_of_range(size: int) -> None:
    with pytest.raises(FrameError, match="outside"):
        FrameReader(max_frame_bytes=1000).feed(struct.pack(">i", size))


def test_limit_itself_is_allowed() -> None:
    assert FrameReader(max_frame_bytes=1000).feed(framed(bytes(1000))) == [bytes(1000)]
