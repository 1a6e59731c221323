"""Lines of records, as kafka-console-consumer.sh of Apache Kafka 3.9.1 prints them."""

from __future__ import annotations

import click
import pytest

from tools.records.line_text import LineText
from tools.records.print_properties import line_maker, printing_properties
from tools.records.record_view import RecordView

PLAIN = RecordView("p", 0, 1, 1_795_699_478_147, None, b"none")
FULL = RecordView("p", 0, 2, 1_795_699_478_424, b"k", None, (("h1", b"v1"), ("h2", None)))
ALL = ("print.timestamp=true", "print.key=true", "print.offset=true", "print.partition=true", "print.headers=true")


def line(record: RecordView, *given: str) -> str:
    return line_maker(printing_properties(given), LineText())(record)


def test_everything_is_printed_in_the_order_of_the_tool() -> None:
    assert line(PLAIN, *ALL) == "CreateTime:1795699478147\tPartition:0\tOffset:1\tNO_HEADERS\tnull\tnone\n"
    assert line(FULL, *ALL) == "CreateTime:1795699478424\tPartition:0\tOffset:2\th1:v1,h2:null\tk\tnull\n"


def test_separators_and_what_there_is_not_have_texts() -> None:
    texts = ("key.separator=|", "line.separator=;", "headers.separator=#", "null.literal=N", "print.value=false")
    assert line(FULL, *ALL, *texts) == "CreateTime:1795699478424|Partition:0|Offset:2|h1:v1#h2:N|k;"


def test_the_broker_s_time_and_no_time_are_told() -> None:
    appended = RecordView("p", 0, 0, 5, None, b"v", is_append_time=True)
    assert line(appended, "print.timestamp=true") == "LogAppendTime:5\tv\n"
    assert line(RecordView("p", 0, 0, -1, None, b"v"), "print.timestamp=true") == "NO_TIMESTAMP\tv\n"


@pytest.mark.parametrize("text", ["print.keys=true", "print.key", "print.key=1"])
def test_a_property_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        line(PLAIN, text)
