"""A JSON object as a record, and the report about it. Pure.

Rules: keys and values are BINARY (base64), JSON or STRING; `data` that is null or absent is no key, or a tombstone. JSON is
stored without white space. A field that is not known is an error. Records with schemas are refused: they are only read here.
Plain functions over dictionaries: a request may have a hundred thousand records.
Source: the OpenAPI description that Confluent publishes, ProduceRequest and ProduceResponse.
"""

from __future__ import annotations

import binascii
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic_core import to_json

from web.errors import HttpProblem
from web.rest_v3.errors import BAD_REQUEST, EMPTY_PAYLOAD, UNKNOWN_PARTITION

if TYPE_CHECKING:
    from client.event_loop.producer import Delivered
    from web.rest_v3.resources import BatchSuccess, ProducedPart, ProduceReport

PartType = Literal["BINARY", "JSON", "STRING"]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_FIELDS: Final = frozenset({"partition_id", "headers", "key", "value", "timestamp"})
_PART_FIELDS: Final = frozenset({"type", "data"})
_SCHEMA_FIELDS: Final = frozenset({"subject", "subject_name_strategy", "schema_id", "schema_version", "schema"})
_HEADER_FIELDS: Final = frozenset({"name", "value"})
_SCHEMA_TYPES: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")


class RecordToSend(NamedTuple):
    """`partition` and `timestamp_ms` are None where the producer chooses them."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None
    key_type: PartType | None
    value_type: PartType | None

    @property
    def size_bytes(self) -> int:
        """The size of key, value and headers."""
        size_bytes = len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            size_bytes += len(name) + len(value or b"")
        return size_bytes


def new_record(fields: dict[str, Any]) -> RecordToSend:
    """Return the record that an object describes. Raises HttpProblem."""
    if not _FIELDS.issuperset(fields):
        raise _refused(f"there is no field {', '.join(sorted(fields.keys() - _FIELDS))} of a record")
    key, key_type = _part(fields.get("key"), "key")
    value, value_type = _part(fields.get("value"), "value")
    headers = [_header(each) for each in _list(fields.get("headers"))]
    partition = fields.get("partition_id")
    if partition is not None and (type(partition) is not int):
        raise _refused("partition_id is no number")
    if partition is not None and partition < 0:
        raise HttpProblem(404, "A partition has no number below 0.", number=UNKNOWN_PARTITION)
    timestamp = fields.get("timestamp")
    timestamp_ms = None if timestamp is None else _timestamp_ms(timestamp)
    return RecordToSend(key, value, headers, partition, timestamp_ms, key_type, value_type)


def report_of(cluster_id: str, record: RecordToSend, delivered: Delivered) -> ProduceReport:
    """Return what is told of a record that is stored."""
    report: ProduceReport = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": delivered.topic,
        "partition_id": delivered.partition,
        "offset": delivered.offset,
        "timestamp": text_of(delivered.timestamp_ms),
    }
    if record.key_type is not None:
        report["key"] = _produced(record.key_type, record.key)
    if record.value_type is not None:
        report["value"] = _produced(record.value_type, record.value)
    return report


def success_of(entry_id: str, report: ProduceReport) -> BatchSuccess:
    """Return what is told of an entry of a batch that is stored."""
    fields: dict[str, Any] = {name: value for name, value in report.items() if name != "error_code"}
    return {"id": entry_id, **fields}  # type: ignore[typeddict-item]


def text_of(timestamp_ms: int) -> str:
    """Return `2021-02-05T19:14:42.250Z`."""
    return f"{(_EPOCH + timestamp_ms * _MS).isoformat(timespec='milliseconds')[:-6]}Z"


def _produced(kind: PartType, content: bytes | None) -> ProducedPart:
    return {"type": kind, "size": len(content or b"")}


def _part(part: Any, name: str) -> tuple[bytes | None, PartType | None]:
    if part is None:
        return None, None
    if not isinstance(part, dict):
        raise _refused(f"{name} is no object with type and data")
    kind, data = part.get("type"), part.get("data")
    if not _PART_FIELDS.issuperset(part) and not part.keys() <= _PART_FIELDS | _SCHEMA_FIELDS:
        raise _refused(f"there is no field {', '.join(sorted(part.keys() - _PART_FIELDS - _SCHEMA_FIELDS))} of {name}")
    if kind is None or kind in _SCHEMA_TYPES:
        raise HttpProblem(
            422,
            f"type of {name} can be BINARY, JSON or STRING: records with schemas are not produced here",
            number=EMPTY_PAYLOAD,
        )
    try:
        if kind == "BINARY":
            return None if data is None else _base64(data), kind
        if kind == "STRING":
            return None if data is None else _text(data).encode(), kind
        if kind == "JSON":
            return None if data is None else _json(data), kind
    except ValueError as error:
        raise _refused(f"data of {name} is no {kind}: {error}") from error
    raise _refused(f"type of {name} can be BINARY, JSON or STRING")


def _base64(data: Any) -> bytes:
    """Raises ValueError."""
    text = _text(data)
    return binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)


def _text(data: Any) -> str:
    """Raises ValueError."""
    if not isinstance(data, str):
        raise ValueError("a string is expected")  # noqa: TRY004 - the caller tells it with what else is wrong
    return data


def _json(data: Any) -> bytes:
    """Raises ValueError."""
    return to_json(data)


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("name"), str) or not header.keys() <= _HEADER_FIELDS:
        raise _refused("a header is an object with name and value")
    value = header.get("value")
    try:
        header["name"].encode()
        return header["name"], None if value is None else _base64(value)
    except ValueError as error:
        raise _refused(f"value of a header is no BINARY: {error}") from error


def _list(headers: Any) -> list[Any]:
    if headers is None:
        return []
    if not isinstance(headers, list):
        raise _refused("headers is no list")
    return headers


def _timestamp_ms(text: Any) -> int:
    try:
        moment = datetime.fromisoformat(_text(text))
        if moment.tzinfo is None:
            raise ValueError("it has no zone")
        return (moment - _EPOCH) // _MS
    except (ValueError, OverflowError) as error:
        raise _refused(f"timestamp is no moment such as 2021-02-05T19:14:42Z: {error}") from error


def _refused(message: str) -> HttpProblem:
    return HttpProblem(BAD_REQUEST, message)
