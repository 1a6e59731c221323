"""Checkpoint files as Apache Kafka writes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.topic_partition import TopicPartition
from storage.checkpoint import CorruptCheckpoint, decode_lines, decode_offsets, encode_lines, encode_offsets

KAFKAS = b"0\n3\n__consumer_offsets 13 0\norders 0 1204\ncompacted 0 977\n"


def test_offsets_of_kafka() -> None:
    offsets = {("__consumer_offsets", 13): 0, ("orders", 0): 1204, ("compacted", 0): 977}
    assert decode_offsets(KAFKAS) == offsets
    assert encode_offsets(offsets) == KAFKAS


def test_nothing() -> None:
    assert decode_offsets(b"0\n0\n") == {}
    assert decode_offsets(b"") == {}
    assert encode_offsets({}) == b"0\n0\n"
    assert encode_lines([]) == b"0\n0\n"
    assert decode_lines(b"0\n1\na line") == ["a line"], "Kafka does not need the last newline"


NAMES = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=30)


@given(st.dictionaries(st.tuples(NAMES, st.integers(0, 2**31 - 1)), st.integers(-1, 2**63 - 1), max_size=20))
def test_round_trip(offsets: dict[TopicPartition, int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"0",
        b"0\n",
        b"1\n0\n",
        b"0\n2\norders 0 1\n",
        b"0\n0\norders 0 1\n",
        b"0\n-1\n",
        b"0\nx\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 1 2\n",
        b"0\n1\norders x 1\n",
        b"0\n1\norders 0 x\n",
        b"0\n1\norders 0 1_000\n",
        b"0\n1\norders 0 --1\n",
        b"0\n1\n\n",
        b"\xff\xfe",
        KAFKAS[:-20],
        bytes(40),
    ],
)
def test_a_corrupt_file(content: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(content)
