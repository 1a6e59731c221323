"""Epochs by offset, table by table."""

from __future__ import annotations

import pytest

from storage.checkpoint import CorruptCheckpoint
from storage.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start_offset in entries:
        assert made.assign(epoch, start_offset)
    return made


@pytest.mark.parametrize(
    ("before", "epoch", "start_offset", "after"),
    [
        ([], 0, 0, [(0, 0)]),
        ([(0, 0)], 1, 10, [(0, 0), (1, 10)]),
        ([(0, 0)], 0, 10, None),
        ([(0, 0), (1, 10)], 1, 10, None),
        ([(0, 0), (1, 10)], 1, 4, [(0, 0), (1, 4)]),  # an earlier start is learned
        ([(0, 0), (1, 10)], 2, 10, [(0, 0), (2, 10)]),  # epoch 1 wrote nothing
        ([(0, 0), (1, 10), (2, 20)], 3, 5, [(0, 0), (3, 5)]),
        ([(0, 0), (4, 10)], 3, 20, [(0, 0), (3, 20)]),  # an older epoch wins over what it contradicts
        ([(2, 10)], 3, 0, [(3, 0)]),
    ],
)
def test_assign(
    before: list[tuple[int, int]], epoch: int, start_offset: int, after: list[tuple[int, int]] | None
) -> None:
    made = epochs(*before)
    assert made.assign(epoch, start_offset) == (after is not None)
    assert made.entries == (before if after is None else after)


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_assign_of_what_cannot_be(epoch: int, start_offset: int) -> None:
    with pytest.raises(AssertionError):
        LeaderEpochs().assign(epoch, start_offset)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all that is known: where the first one starts
        (1, (1, 10)),
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (2, 30)),
        (5, (5, 100)),
        (6, (-1, -1)),
    ],
)
def test_end_offset_for(epoch: int, end: tuple[int, int]) -> None:
    assert epochs((2, 10), (5, 30)).end_offset_for(epoch, 100) == end


def test_end_offset_of_an_empty_cache() -> None:
    assert LeaderEpochs().end_offset_for(3, 100) == (-1, -1)


def test_epoch_for() -> None:
    made = epochs((2, 10), (5, 30))
    assert [made.epoch_for(offset) for offset in (0, 9, 10, 29, 30, 1000)] == [-1, -1, 2, 2, 5, 5]
    assert made.latest_epoch == 5
    assert LeaderEpochs().latest_epoch == UNDEFINED_EPOCH


@pytest.mark.parametrize(
    ("end_offset", "after"), [(31, [(2, 10), (5, 30)]), (30, [(2, 10)]), (11, [(2, 10)]), (10, []), (0, [])]
)
def test_truncate_from_end(end_offset: int, after: list[tuple[int, int]]) -> None:
    made = epochs((2, 10), (5, 30))
    assert made.truncate_from_end(end_offset) == (len(after) < 2)
    assert made.entries == after


@pytest.mark.parametrize(
    ("start_offset", "after"),
    [
        (5, [(2, 10), (5, 30), (6, 40)]),
        (10, [(2, 10), (5, 30), (6, 40)]),
        (11, [(2, 11), (5, 30), (6, 40)]),
        (30, [(5, 30), (6, 40)]),
        (35, [(5, 35), (6, 40)]),
        (90, [(6, 90)]),
    ],
)
def test_truncate_from_start(start_offset: int, after: list[tuple[int, int]]) -> None:
    made = epochs((2, 10), (5, 30), (6, 40))
    assert made.truncate_from_start(start_offset) == (made.entries != [(2, 10), (5, 30), (6, 40)])
    assert made.entries == after


def test_the_file_is_kafkas() -> None:
    made = epochs((0, 0), (3, 120))
    assert made.to_checkpoint() == b"0\n2\n0 0\n3 120\n"
    assert LeaderEpochs.from_checkpoint(made.to_checkpoint()) == made
    assert LeaderEpochs.from_checkpoint(b"0\n1\n0 0\n").entries == [(0, 0)]
    assert len(LeaderEpochs.from_checkpoint(b"")) == 0
    assert repr(made) == "LeaderEpochs([(0, 0), (3, 120)])"


@pytest.mark.parametrize(
    "content",
    [
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\nx 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -1\n",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0 1_0\n",
    ],
)
def test_a_corrupt_file(content: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochs.from_checkpoint(content)
