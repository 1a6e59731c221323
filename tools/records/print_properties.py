"""The line of a record as kafka-console-consumer.sh prints it, made from that tool's properties. Pure.

`print.timestamp`, `print.partition`, `print.offset`, `print.headers`, `print.key`, `print.value` say what is printed, in this
order, with `key.separator` between them; `line.separator` ends the line, `headers.separator` stands between headers, and
`null.literal` is printed for what there is not.
Source: kafka-console-consumer.sh, DefaultMessageFormatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tools.records.line_form import properties_of, switch
from tools.records.line_text import Line, LineText
from tools.records.record_view import NO_TIMESTAMP, RecordView

DESERIALIZERS = ("key.deserializer", "value.deserializer")
"""They say what bytes are, as the options of the same names."""
_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
_TEXTS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
_NO_HEADERS = "NO_HEADERS"
_NO_TIME = "NO_TIMESTAMP"


def printing_properties(given: Iterable[str]) -> dict[str, str]:
    """Return the properties of NAME=VALUE texts. Raises click.BadParameter."""
    return properties_of(given, (*(f"print.{name}" for name in _PRINTED), *_TEXTS, *DESERIALIZERS))


def line_maker(properties: dict[str, str], texts: LineText) -> Line:
    """Return what makes the line of a record. Raises click.BadParameter."""
    given = {name: properties.get(name, default) for name, default in _TEXTS.items()}
    texts = replace(texts, null=given["null.literal"])
    fields: dict[str, Callable[[RecordView], str]] = {
        "timestamp": _time,
        "partition": lambda record: f"Partition:{record.partition}",
        "offset": lambda record: f"Offset:{record.offset}",
        "headers": lambda record: texts.headers(record, given["headers.separator"], ":", _NO_HEADERS),
        "key": lambda record: texts.text(record.key),
        "value": lambda record: texts.value(record.value),
    }
    chosen = [make for name, make in fields.items() if switch(properties, f"print.{name}", default=name == "value")]
    separator, end = given["key.separator"], given["line.separator"]
    return texts.line(lambda record: separator.join(make(record) for make in chosen) + end)


def _time(record: RecordView) -> str:
    if record.timestamp_ms == NO_TIMESTAMP:
        return _NO_TIME
    return f"{'LogAppendTime' if record.is_append_time else 'CreateTime'}:{record.timestamp_ms}"
