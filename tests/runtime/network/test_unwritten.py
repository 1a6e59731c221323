"""What is left of buffers of which only the first bytes were written."""

from __future__ import annotations

import pytest

from runtime.disk.filesystem import Buffer, unwritten


@pytest.mark.parametrize(
    ("chunks", "written", "left"),
    [
        ([b"abc", b"defg"], 0, [b"abc", b"defg"]),
        ([b"abc", b"defg"], 2, [b"c", b"defg"]),
        ([b"abc", b"defg"], 3, [b"defg"]),
        ([b"abc", bytearray(b"defg")], 4, [b"efg"]),
        ([b"abc", memoryview(b"defg")], 6, [b"g"]),
        ([b"abc", b"defg"], 7, []),
        ([b"", b"abc"], 0, [b"abc"]),
        ([b"abc", b"", b"", b"defg"], 3, [b"defg"]),
        ([b"abc", b"", b"defg"], 1, [b"bc", b"", b"defg"]),
        ([b"abc", b""], 3, []),
        ([b"", b""], 0, []),
        ([], 0, []),
    ],
)
def test_so_much_is_left(chunks: list[Buffer], written: int, left: list[bytes]) -> None:
    before = list(chunks)
    assert unwritten(chunks, written) == left
    assert chunks == before, "the caller's list is as it was"


def test_the_rest_of_a_chunk_is_no_copy() -> None:
    chunk = bytearray(b"abc")
    [rest] = unwritten([chunk], 1)
    chunk[2:] = b"x"
    assert rest == b"bx"
