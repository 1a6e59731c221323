"""The contents of records that are due soon: bounded, and shared fairly."""

from __future__ import annotations

from protocol.records.record import Record
from relay.relaying.contents import GONE, Contents

RECORD = Record(3, 5, b"k", bytes(700))  # about 1,000 bytes with what it takes beside


def test_contents_are_kept_till_they_are_dropped() -> None:
    contents = Contents()
    assert contents.get(("a", 0), 3) is None
    contents.add(("a", 0), 3, RECORD)
    contents.add(("a", 0), 4, None)
    assert contents.get(("a", 0), 3) is RECORD
    assert contents.get(("a", 0), 4) == GONE
    contents.drop(("a", 0), 3)
    contents.drop(("a", 0), 3)
    assert contents.get(("a", 0), 3) is None
    contents.drop_source(("a", 0))
    assert contents.get(("a", 0), 4) is None


def test_a_source_has_half_the_room_and_all_have_the_whole() -> None:
    contents = Contents(max_bytes=10_000)
    for place in range(20):
        if contents.has_room_for(("a", 0)):
            contents.add(("a", 0), place, RECORD)
    kept = [place for place in range(20) if contents.get(("a", 0), place)]
    assert len(kept) == 5
    assert contents.has_room_for(("b", 0))
    for place in range(5):
        contents.add(("b", 0), place, RECORD)
    assert not contents.has_room_for(("c", 0))
    contents.drop_source(("a", 0))
    assert contents.has_room_for(("a", 0))
