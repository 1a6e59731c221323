"""Lines as records, with the answers of kafka-console-producer.sh of Apache Kafka 3.9.1."""

from __future__ import annotations

import click
import pytest

from tools.records.line_form import LineForm


def form(*given: str, key_separator: str | None = None) -> LineForm:
    return LineForm.of(given, key_separator)


@pytest.mark.parametrize(
    ("given", "line", "record"),
    [
        ((), b"k\tv", ([], None, b"k\tv")),
        (("parse.key=true",), b"k\tv\tw", ([], b"k", b"v\tw")),
        (("parse.key=true", "ignore.error=true"), b"none", ([], None, b"none")),
        (("parse.key=true", "key.separator=::"), b"a::b::c", ([], b"a", b"b::c")),
        (("parse.headers=true",), b"h1:a:b\tv", ([("h1", b"a:b")], None, b"v")),
        (("parse.headers=true", "ignore.error=true"), b"v", ([], None, b"v")),
        (
            ("parse.headers=true", "parse.key=true", "null.marker=NULL"),
            b"h1:v1,h2:NULL\tNULL\tNULL",
            ([("h1", b"v1"), ("h2", None)], None, None),
        ),
        (("parse.headers=true", "parse.key=true", "null.marker=NULL"), b"NULL\tk\tv", ([], b"k", b"v")),
        (
            ("parse.headers=true", "headers.delimiter=|", "headers.separator=;", "headers.key.separator=="),
            b"a=1;b=2|v",
            ([("a", b"1"), ("b", b"2")], None, b"v"),
        ),
    ],
)  # fmt: skip
def test_a_line_has_headers_key_and_value(given: tuple[str, ...], line: bytes, record: object) -> None:
    assert form(*given).parse(line) == record


def test_the_option_parses_keys_without_a_property() -> None:
    assert form(key_separator=":").parse(b"k:v") == ([], b"k", b"v")


@pytest.mark.parametrize(
    ("given", "line", "reason"),
    [
        (("parse.key=true",), b"none", r"no key separator '\\t'"),
        (("parse.headers=true",), b"v", r"no headers delimiter '\\t'"),
        (("parse.headers=true",), b"h1\tv", "no header key separator ':' in 'h1'"),
        (("parse.headers=true",), b"\tv", "no header key separator ':' in ''"),
        (("parse.headers=true", "null.marker=N"), b"N:1\tv", "a header without a name"),
    ],
)
def test_a_line_of_another_form_is_refused(given: tuple[str, ...], line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        form(*given).parse(line)


@pytest.mark.parametrize("text", ["parse.keys=true", "parse.key", "parse.key=yes", "key.separator="])
def test_a_property_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        form(text)
