"""The line of a record as kafka-console-consumer.sh prints it, made from that tool's properties. Pure.

`print.timestamp`, `print.partition`, `print.offset`, `print.headers`, `print.key`, `print.value` say what is printed, in this
order, with `key.separator` between them; `line.separator` ends the line, `headers.separator` stands between headers, and
`null.literal` is printed for what there is not.
Source: kafka-console-consumer.sh, DefaultMessageFormatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tools.records.line_form import properties_of, switch
from tools.records.record_view import NO_TIMESTAMP, RecordView, text_of

DESERIALIZERS = ("key.deserializer", "value.deserializer")
"""They say what bytes are, as the options of the same names."""
_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
_TEXTS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
_NO_HEADERS = "NO_HEADERS"
_NO_TIME = "NO_TIMESTAMP"


def printing_properties(given: Iterable[str]) -> dict[str, str]:
    """Return the properties of NAME=VALUE texts. Raises click.BadParameter."""
    return properties_of(given, (*(f"print.{name}" for name in _PRINTED), *_TEXTS, *DESERIALIZERS))


def line_maker(properties: dict[str, str]) -> Callable[[RecordView], str]:
    """Return what makes the line of a record, with its end. Raises click.BadParameter."""
    texts = {name: properties.get(name, default) for name, default in _TEXTS.items()}
    null = texts["null.literal"]

    def text(data: bytes | None) -> str:
        return null if data is None else text_of(data)

    def headers(record: RecordView) -> str:
        shown = [f"{name}:{text(value)}" for name, value in record.headers]
        return texts["headers.separator"].join(shown) if shown else _NO_HEADERS

    fields: dict[str, Callable[[RecordView], str]] = {
        "timestamp": _time,
        "partition": lambda record: f"Partition:{record.partition}",
        "offset": lambda record: f"Offset:{record.offset}",
        "headers": headers,
        "key": lambda record: text(record.key),
        "value": lambda record: text(record.value),
    }
    chosen = [make for name, make in fields.items() if switch(properties, f"print.{name}", default=name == "value")]
    separator, end = texts["key.separator"], texts["line.separator"]
    return lambda record: separator.join(make(record) for make in chosen) + end


def _time(record: RecordView) -> str:
    if record.timestamp_ms == NO_TIMESTAMP:
        return _NO_TIME
    return f"{'LogAppendTime' if record.is_append_time else 'CreateTime'}:{record.timestamp_ms}"
