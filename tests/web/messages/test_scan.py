"""Finding records in batches: what is found is what reading every record finds, whatever is passed over unread."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.any_format import iter_any_headers
from protocol.records.batch import HEADER_BYTES
from protocol.records.compression import Compression
from protocol.records.invalid import InvalidBatch
from protocol.records.legacy import encode_message
from protocol.records.record import Record, encode_batch
from web.messages.conditions import Conditions, Contents
from web.messages.scan import Scan

TEXTS = st.text(alphabet='aA0é/"\\ 17.e-x\x00', max_size=6)
BYTES = st.one_of(TEXTS.map(str.encode), st.binary(max_size=4))
LEAVES = st.one_of(TEXTS, st.integers(-99, 99), st.floats(), st.none(), st.lists(TEXTS, max_size=2))
DOCUMENTS = st.dictionaries(st.sampled_from(["a", "é", "a/b", "id"]), LEAVES, max_size=3)
VALUES = st.one_of(
    st.none(),
    BYTES,
    DOCUMENTS.map(lambda each: json.dumps(each).encode()),
    DOCUMENTS.map(lambda each: json.dumps(each, ensure_ascii=False).encode()),
)
HEADERS = st.lists(st.tuples(st.sampled_from(["h", "é"]), st.one_of(st.none(), BYTES)), max_size=2)
RECORDS = st.lists(st.builds(Record, st.just(0), st.integers(0, 10), VALUES, VALUES, HEADERS), min_size=1, max_size=6)
TARGETS = (
    "key", "value", "any", "header:h", "header:%C3%A9", "json:a", "json:$['a/b']", "json:id", "json:a[0]", "key_json:$..a",
)  # fmt: skip
COMPARISONS = ("is", "is~", "contains", "contains~", "starts", "starts~")
WHERE = st.builds(
    "{}:{}{}:{}".format, st.sampled_from(TARGETS), st.sampled_from(["", "!"]), st.sampled_from(COMPARISONS), TEXTS
)
EXPRESSIONS = (
    "^a", "a$", "[^a]", "a.", "(?i)A0", r"\d\b", "1|e", r"\ba+$", r"a^{0}a",
    r"a\b{2}", r"\Q^a\E", r"\^|\$", r"[$^]a", r"\\b", r"\p{^L}e",
)  # fmt: skip
PATTERNS = st.builds("{}:matches:{}".format, st.sampled_from(["value", "any"]), st.sampled_from(EXPRESSIONS))
CODECS = st.sampled_from([Compression.NONE, Compression.LZ4])
NO_END = 1 << 60


def found(scan: Scan, buffer: bytes, first: int = 0, end: int = NO_END) -> list[Record]:
    return [
        each.record
        for at, header in iter_any_headers(buffer)
        for each in scan.scan(buffer, at, header, first, end)
        if each is not None and each.is_sure
    ]


@given(RECORDS, st.lists(st.one_of(WHERE, PATTERNS), max_size=3), CODECS, st.integers(0, 12))
def test_nothing_that_fulfils_the_conditions_is_passed_over(
    records: list[Record], where: list[str], codec: Compression, since_ms: int
) -> None:
    for offset, each in enumerate(records):
        each.offset = offset
    buffer = encode_batch(records[:3], compression=codec)
    if records[3:]:
        buffer += encode_batch(records[3:], base_offset=3, compression=codec)
    conditions = Conditions.parse(where, since_ms=since_ms)
    expected = [
        each
        for each in records
        if each.timestamp >= since_ms and conditions.hold(Contents(each.key, each.value, each.headers))
    ]
    assert found(Scan.of(conditions), buffer) == expected


@pytest.mark.parametrize("where", [[], ["key:is:k"]])
def test_only_offsets_that_were_asked_for(where: list[str]) -> None:
    buffer = encode_batch([Record(offset, 0, b"k", b"v") for offset in range(10, 20)], base_offset=10)
    records = found(Scan.of(Conditions.parse(where)), buffer, 12, 15)
    assert [each.offset for each in records] == [12, 13, 14]


def test_messages_of_old_formats_are_read() -> None:
    buffer = encode_message(1, 7, 1_000, b"k", b"old")
    assert [each.value for each in found(Scan.of(Conditions.parse(["value:is:old"])), buffer)] == [b"old"]
    assert not found(Scan.of(Conditions.parse(["value:is:other"])), buffer)


def test_what_is_decoded_or_large_is_left_to_the_caller() -> None:
    buffer = encode_batch([Record(0, 0, b"k", b"x" * 100_000), Record(1, 0, b"k", b"v")])
    [(at, header)] = iter_any_headers(buffer)
    sure = [each.is_sure for each in Scan.of(Conditions.parse(["key:is:k"])).scan(buffer, at, header, 0, 9) if each]
    assert sure == [False, True]
    decoding = Scan.of(Conditions.parse(["value:is:decoded"]), decodes_value=True)
    assert [each.is_sure for each in decoding.scan(buffer, at, header, 0, 9) if each] == [False, False]


@pytest.mark.parametrize("where", [[], ["key:is:key"]])
def test_a_broken_batch_is_an_error(where: list[str]) -> None:
    buffer = bytearray(encode_batch([Record(0, 0, b"key", b"value")]))
    buffer[HEADER_BYTES] = 0x7E
    [(at, header)] = iter_any_headers(buffer)
    with pytest.raises(InvalidBatch):
        list(Scan.of(Conditions.parse(where)).scan(bytes(buffer), at, header, 0, 9))


def test_many_records_are_looked_at_in_steps() -> None:
    records = [Record(offset, 0, None, b"v" * 100) for offset in range(1_000)]
    buffer = encode_batch(records, compression=Compression.GZIP)
    [(at, header)] = iter_any_headers(buffer)
    steps = list(Scan.of(Conditions.parse(["value:!exists"])).scan(buffer, at, header, 0, NO_END))
    assert steps.count(None) >= 30
