"""The header checksum of lz4 frames, right and as the clients of message format v0 make it."""

from __future__ import annotations

import lz4.frame
import pytest

from protocol.records.lz4_header import with_header_checksum

HEADER = bytes((0x04, 0x22, 0x4D, 0x18, 0x60, 0x40))


def test_what_clients_of_old_and_new_write() -> None:
    # From Apache Kafka's tests of both.
    assert with_header_checksum(HEADER + b"\x00", of_magic=True) == HEADER + b"\x1a"
    assert with_header_checksum(HEADER + b"\x00", of_magic=False) == HEADER + b"\x82"


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_the_right_one_is_that_of_the_library(store_size: bool, content_checksum: bool, block_size: int) -> None:
    frame = lz4.frame.compress(
        b"some data" * 100, store_size=store_size, content_checksum=content_checksum, block_size=block_size
    )
    wrong = with_header_checksum(frame, of_magic=True)
    assert sum(ours != theirs for ours, theirs in zip(wrong, frame, strict=True)) <= 1
    assert with_header_checksum(wrong, of_magic=False) == frame


@pytest.mark.parametrize("length", range(20))
def test_frames_that_end_early_are_left_to_the_codec(length: int) -> None:
    frame = lz4.frame.compress(b"some data", store_size=True)[:length]
    assert len(with_header_checksum(frame, of_magic=False)) == length
