"""The rows of a write, and the topics and records they become. Pure.

Columns are those of Spark's Kafka sink: `value` (binary or string), and where wanted `key`, `headers`, `topic`, `partition`;
beside them `timestamp`, for those who copy topics. The option `topic` counts before the column.

Rules: pure. A column that is not known, or has another type, is an error before anything is written.
Source: Spark KafkaWriter, KafkaRowWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.spark.client.option_values import SourceOptionError
from protocol.records.record import Record

COLUMNS: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
"""The columns, and the types that they may have, in Spark's short form."""


@dataclass(frozen=True, slots=True)
class OutgoingRow:
    """A row, ready to be written. `partition` is None where the key decides, or nobody."""

    topic: str
    partition: int | None
    record: Record


@dataclass(frozen=True, slots=True)
class RowFormat:
    """Which columns there are, in the order of the values of a row, and the topic of rows that name none."""

    columns: tuple[str, ...]
    topic: str | None

    def outgoing(self, rows: Iterable[Sequence[Any]], now_ms: Callable[[], int]) -> Iterator[OutgoingRow]:
        """Records of `rows`, whose values stand in the order of `columns`, a timestamp in ms since 1970. Raises
        SourceOptionError for a row without a topic."""
        places = [self.columns.index(name) if name in self.columns else None for name in COLUMNS]
        key_at, value_at, topic_at, partition_at, headers_at, timestamp_at = places
        for row in rows:
            topic = self.topic or (None if topic_at is None else row[topic_at])
            if not topic:
                raise SourceOptionError("A row names no topic, and the option 'topic' is not given")
            stamp = None if timestamp_at is None else row[timestamp_at]
            yield OutgoingRow(
                topic,
                None if partition_at is None else row[partition_at],
                Record(
                    0,
                    now_ms() if stamp is None else stamp,
                    None if key_at is None else _bytes(row[key_at]),
                    None if value_at is None else _bytes(row[value_at]),
                    [] if headers_at is None or not row[headers_at] else [_header(each) for each in row[headers_at]],
                ),
            )


def row_format(types: Mapping[str, str], topic: str | None) -> RowFormat:
    """The format of a frame with these columns and types. Raises SourceOptionError."""
    for name, kind in types.items():
        valid = COLUMNS.get(name)
        if valid is None:
            raise SourceOptionError(f"Column {name!r} is not written. Valid are: {', '.join(COLUMNS)}")
        if kind not in valid:
            raise SourceOptionError(f"Column {name!r} is {' or '.join(valid)}, not {kind}")
    if "value" not in types:
        raise SourceOptionError("Column 'value' is missing")
    if topic is None and "topic" not in types:
        raise SourceOptionError("Either the option 'topic' or a column 'topic' is needed")
    return RowFormat(tuple(types), topic)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else bytes(value)


def _header(header: Any) -> tuple[str, bytes | None]:
    if isinstance(header, Mapping):
        return header["key"], _bytes(header["value"])
    key, value = header
    return key, _bytes(value)
