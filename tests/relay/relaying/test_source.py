"""What was read of a source and not taken in yet: it comes in portions of the caller's size, whatever the sizes of fetches."""

from __future__ import annotations

import pytest

from client.committing import OffsetAndMetadata
from client.reading.positions import FetchedBatches
from protocol.records.any_format import iter_any_headers
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, encode_batch
from relay.relaying.source import SourcePartition
from relay.rules.rule import Rule, RuleKind
from relay.waiting.index import WaitingIndex

KEY = ("later", 0)


def fetch(start: int, count: int, epoch: int = 1) -> FetchedBatches:
    """What a fetch brought: a batch of so many records, or only what is no record."""
    records = [Record(0, 0, None, b"v") for _ in range(count)]
    content = encode_batch(records, base_offset=start, partition_leader_epoch=epoch) if records else b""
    return FetchedBatches(*KEY, start, start + max(count, 1), content, list(iter_any_headers(content)), 0, 100)


def offsets(found: tuple[list[Record], OffsetAndMetadata]) -> tuple[list[int], int, int]:
    return [each.offset for each in found[0]], found[1].offset, found[1].leader_epoch


def test_small_fetches_are_taken_together_and_large_ones_in_parts() -> None:
    rule = Rule(KEY[0], RuleKind.DELAY, "now")
    source = SourcePartition(KEY, rule, WaitingIndex(*KEY), 1, OffsetAndMetadata(0, 1), 0)
    assert offsets(source.peek(3)) == ([], 0, 1)
    for each in (fetch(0, 1), fetch(1, 0), fetch(2, 1), fetch(3, 4, 2), fetch(7, 0, 2)):
        assert source.fetched(each) == 0
    assert offsets(source.peek(3)) == ([0, 2, 3], 4, 2)
    assert offsets(source.peek(3)) == ([0, 2, 3], 4, 2), "they come again until they are taken"
    source.took(3, OffsetAndMetadata(4, 2))
    assert offsets(source.peek(9)) == ([4, 5, 6], 8, 2)
    source.took(3, OffsetAndMetadata(8, 2))
    assert source.peek(9) == ([], OffsetAndMetadata(8, 2))
    assert not source.has_fetched


def test_what_a_reader_that_goes_back_brings_again_is_not_taken_in_again() -> None:
    rule = Rule(KEY[0], RuleKind.DELAY, "now")
    source = SourcePartition(KEY, rule, WaitingIndex(*KEY), 1, OffsetAndMetadata(4, 2), 0)
    for each in (fetch(0, 3), fetch(3, 3), fetch(6, 1)):
        assert source.fetched(each) == 0
    assert offsets(source.peek(9)) == ([4, 5, 6], 7, 1)


def test_a_batch_that_cannot_be_decoded_stays_where_it_is() -> None:
    source = SourcePartition(
        KEY, Rule(KEY[0], RuleKind.DELAY, "now"), WaitingIndex(*KEY), 1, OffsetAndMetadata(0, 1), 0
    )
    good, bad = fetch(0, 2), fetch(2, 1)
    source.fetched(good)
    source.fetched(bad._replace(buffer=bad.buffer[:-1]))
    source.fetched(fetch(3, 1))
    assert offsets(source.peek(9)) == ([0, 1], 2, 1)
    source.took(2, OffsetAndMetadata(2, 1))
    for _ in range(2):
        with pytest.raises(InvalidBatch):
            source.peek(9)
    assert source.position.offset == 2
