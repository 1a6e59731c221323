"""Trees of copies: as headers say, also where they are hostile."""

from __future__ import annotations

from client.letters.headers import Letter
from tools.trace.mirrors import MirrorPairs, mirrored_names
from tools.trace.stored import StoredRecord
from tools.trace.tree import Findings, TracedRecord, document, lines, trees


def record(topic: str, offset: int, source: tuple[str, int] | None = None, key: bytes | None = b"k") -> StoredRecord:
    letter = Letter() if source is None else Letter(source_topic=source[0], source_partition=0, source_offset=source[1])
    return StoredRecord(topic, 0, offset, offset, False, key, None, letter, b"", None)


def shape(found: list[TracedRecord]) -> list[object]:
    return [(each.record.topic, each.record.offset, shape(each.copies)) for each in found]


def test_copies_stand_below_what_they_are_copies_of_and_circles_are_cut() -> None:
    records = [record("dead", 9, ("retry", 5)), record("retry", 5, ("a", 1)), record("a", 1), record("b", 2, ("gone", 0)),
               record("c", 3, ("d", 4)), record("d", 4, ("c", 3)), record("e", 6, ("e", 6))]  # fmt: skip
    found = trees(records, Findings())
    assert shape(found) == [
        ("a", 1, [("retry", 5, [("dead", 9, [])])]), ("b", 2, []), ("d", 4, [("c", 3, [])]), ("e", 6, [])
    ]  # fmt: skip
    assert sum(text.count(" offset ") for text in lines(found)) == 7 + 6  # with what they say they are copies of


def test_what_is_no_text_is_shown_as_hexadecimal_digits_and_long_texts_are_cut() -> None:
    [first, second] = trees([record("a", 1, key=b"\xff"), record("a", 2, key=b"x" * 500)], Findings())
    told = list(lines([first, second]))
    assert "key 0xff" in told[0] and "x..." in told[1] and len(told[1]) < 400
    assert document(first)["key_base64"] == "/w=="
    hostile = StoredRecord(
        "a", 0, 1, 10**17, False, None, 3, Letter(reason="r" * 10_000, message_id=b"\xff"), b"", None
    )
    [line] = lines(trees([hostile], Findings()))
    assert "beyond the calendar" in line and "id 0xff" in line and len(line) < 500


def test_the_newest_pair_that_covers_an_offset_counts() -> None:
    pairs = MirrorPairs(sources=[("t", 0, 5), ("t", 1, 5)], targets=[("a.t", 0, 25), ("a.t", 0, 99)])
    form = '{"topic": "t", "partition": %d, "sourceOffset": %d, "targetOffset": %d, "records": %d}'
    for values in ((0, 4, 10, 2), (0, 4, 24, 2), (0, 6, 26, 0), (1, 6, 0, 9)):
        pairs.add((form % values).encode())
    for rubbish in (None, b"", b"\xff", b"[]", b'{"topic": "t"}'):
        pairs.add(rubbish)
    assert (pairs.copies, pairs.originals) == ({("t", 0, 5): 25}, {("a.t", 0, 25): ("t", 0, 5)})
    assert pairs.unreadable == 5
    assert mirrored_names("t", ["a.t", "t", "tt2"]) == ["t", "a.t"]
