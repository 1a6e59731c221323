"""How records are printed, and which are wanted."""

import click
import pytest

from tools.records.record_filter import RecordFilter
from tools.records.record_view import RecordView, UnreadableHeaders

RECORD = RecordView("orders", 2, 7, 1_700_000_000_000, b"k1", b"caf\xc3\xa9", (("trace", b"a"), ("empty", None)))
BINARY = RecordView("orders", 0, 0, -1, None, b"\xff\x00", ())


def test_json_has_base64_only_where_bytes_are_no_text() -> None:
    assert RECORD.as_json() == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "key": "k1",
        "value": "café",
        "headers": [{"name": "trace", "value": "a"}, {"name": "empty", "value": None}],
    }
    shown = BINARY.as_json()
    assert (shown["key"], shown["value_base64"]) == (None, "/wA=")
    assert "value" not in shown


def test_headers_that_cannot_be_read_are_told() -> None:
    """The client library raises for the first name that is no UTF-8."""

    class Message:
        topic, partition, offset, key, value = (lambda self, each=each: each for each in ("t", 0, 1, b"k", b"v"))

        def timestamp(self) -> tuple[int, int]:
            return 1, 5

        def headers(self) -> None:
            b"h\xff".decode()

    record = RecordView.of(Message())
    assert (record.key, record.headers, record.unreadable_name) == (b"k", (), r"h\xff")
    shown = record.as_json()
    assert (shown["headers"], shown["unreadable_header"]) == (None, r"h\xff")
    assert RecordFilter.of(b"k", [], None).takes(record)
    for takes in (lambda: RecordFilter.of(None, ["a=b"], None).takes(record),
                  lambda: RecordFilter.of(None, ["a=b"], None).takes_message(Message())):  # fmt: skip
        with pytest.raises(UnreadableHeaders, match=r"h\\xff"):
            takes()


@pytest.mark.parametrize(
    ("key", "headers", "part", "is_wanted"),
    [
        (None, [], None, True),
        ("k1", ["trace=a"], "af", True),
        ("k2", [], None, False),
        (None, ["trace=b"], None, False),
        (None, ["empty="], None, False),
        (None, [], "tea", False),
    ],
)
def test_a_filter_wants_all_that_is_given(
    key: str | None, headers: list[str], part: str | None, is_wanted: bool
) -> None:
    assert RecordFilter.of(None if key is None else key.encode(), headers, part).takes(RECORD) is is_wanted


def test_a_tombstone_contains_nothing() -> None:
    tombstone = RecordView("orders", 0, 1, 0, b"k1", None)
    assert not RecordFilter.of(None, [], "x").takes(tombstone)
    assert RecordFilter.of(b"k1", [], None).takes(tombstone)


def test_a_header_without_value_is_refused() -> None:
    with pytest.raises(click.BadParameter):
        RecordFilter.of(None, ["trace"], None)


@pytest.mark.parametrize(
    ("path", "value", "is_wanted"),
    [
        ("order.id=7", b'{"order": {"id": 7}}', True),
        ("$.order.id=7", b'{"order": {"id": "7"}}', True),
        ("items[1].sku=A7", b'{"items": [{}, {"sku": "A7"}]}', True),
        ("items[2].sku=A7", b'{"items": [{}, {"sku": "A7"}]}', False),
        ("[0]=true", b"[true]", True),
        ("a=null", b'{"a": null}', True),
        ("a=", b'{"a": ""}', True),
        ("a.b=1", b'{"a": 1}', False),
        ("a=1", b"no JSON", False),
    ],
)
def test_fields_of_json_are_compared_as_text(path: str, value: bytes, is_wanted: bool) -> None:
    record = RecordView("orders", 0, 1, 0, None, value)
    assert RecordFilter.of(None, [], None, [path]).takes(record) is is_wanted


@pytest.mark.parametrize("path", ["a", "=1", "a[x]=1", "[=1"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(click.BadParameter):
        RecordFilter.of(None, [], None, [path])
