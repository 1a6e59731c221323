"""Values of Avro. Pure: fastavro reads them.

Rules: fastavro's reader in C is fast, but recurses without a bound and believes the counts in a record. So a schema that
contains itself is read by its reader in Python, which Python bounds, and `_Extent` refuses schemas by which few bytes mean
many values.
People see dates, decimals and UUIDs as texts, and unions without their branch; exact values are Avro's JSON encoding. Where a
date is out of Python's range, its number is shown.
Source: Avro's specification 1.11; Confluent AvroSchemaUtils.toJson, AbstractKafkaAvroDeserializer (a schema of plain bytes has
its bytes without a length).
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

import fastavro
from fastavro import _read_py
from fastavro.schema import SchemaParseException

from web.schemas.contract import DecodeError, RegisteredSchema
from web.schemas.json_text import read_json

MAX_DEPTH: Final = 64
_FREE_VALUES: Final = 64
_VALUES_PER_BYTE: Final = 16
"""How many values a type may give for each byte that it needs at least, beyond those that are free."""
_ERRORS: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, SchemaParseException, TypeError, ValueError,
)  # fmt: skip
"""What fastavro raises for a record or a schema that is wrong."""
_LENGTHS: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class _Extent(NamedTuple):
    """At most how many values a type gives besides those of arrays and maps, and at least from how many bytes."""

    values: int
    size_bytes: int


class AvroDecoder:
    def __init__(self, schema: RegisteredSchema) -> None:
        """Raises DecodeError."""
        try:
            texts = [*(each.text for each in schema.references), schema.text]
            self._readable, check = _parsed([read_json(each) for each in texts])
            self._stored, _ = _parsed([_without_logical_types(read_json(each)) for each in texts])
        except _ERRORS as error:
            raise DecodeError(f"schema {schema.schema_id} cannot be used: {error or type(error).__name__}") from None
        # in C, or in Python, where the depth is bounded
        self._read: Any = _read_py.schemaless_reader if check.is_recursive else fastavro.schemaless_reader
        stored = self._stored
        self._is_bytes = stored == "bytes" or (isinstance(stored, dict) and stored.get("type") == "bytes")
        self._name = stored.get("name", "") if isinstance(stored, dict) else ""

    def decode(self, payload: memoryview, *, is_exact: bool = False) -> tuple[Any, str]:
        """Raises DecodeError."""
        if self._is_bytes:
            return payload.tobytes().decode("latin-1"), self._name
        try:
            return (self._exact(payload) if is_exact else self._plain(payload)), self._name
        except _ERRORS as error:
            raise DecodeError(f"the value is not as its schema says: {error or type(error).__name__}") from None

    def _plain(self, payload: memoryview) -> Any:
        try:
            return _json_value(self._whole(payload, self._readable))
        except (ArithmeticError, ValueError):  # such as a date out of range
            return _json_value(self._whole(payload, self._stored))

    def _exact(self, payload: memoryview) -> Any:
        datum = self._whole(payload, self._stored, return_named_type=True)
        text = io.StringIO()
        fastavro.json_writer(text, self._stored, [datum])
        return json.loads(text.getvalue(), parse_constant=str)

    def _whole(self, payload: memoryview, schema: Any, **options: bool) -> Any:
        stream = io.BytesIO(payload)
        value = self._read(stream, schema, None, **options)
        left_bytes = len(payload) - stream.tell()
        if left_bytes:
            raise EOFError(f"{left_bytes} bytes are left over")
        return value


def _parsed(schemas: list[Any]) -> tuple[Any, _Check]:
    """Return the last of schemas, parsed, which may name the types of those before."""
    named: dict[str, Any] = {}
    parsed: Any = None
    for each in schemas:
        parsed = fastavro.parse_schema(each, named_schemas=named, expand=False)
    check = _Check(named)
    check.extent(parsed, 0)
    return parsed, check


class _Check:
    """Walks a schema. Raises ValueError for one that gives too many values for its bytes, or is nested too deeply."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.is_recursive = False
        self._named = named
        self._known: dict[str, _Extent | None] = {}  # None while it is being walked

    def extent(self, schema: Any, depth: int) -> _Extent:
        if depth > MAX_DEPTH:
            raise ValueError("the schema is nested too deeply")
        if isinstance(schema, list):
            branches = [self.extent(each, depth + 1) for each in schema]
            extent = _Extent(1 + max(each.values for each in branches), 1 + min(each.size_bytes for each in branches))
        elif isinstance(schema, str):
            extent = _Extent(1, _LENGTHS[schema]) if schema in _LENGTHS else self._of_name(schema, depth)
        else:
            extent = self._of_type(schema, depth)
        if extent.values > _FREE_VALUES + _VALUES_PER_BYTE * extent.size_bytes:
            raise ValueError("few bytes would give too many values")
        return extent

    def _of_name(self, name: str, depth: int) -> _Extent:
        if name not in self._known:
            return self.extent(self._named[name], depth + 1)
        known = self._known[name]
        if known is None:
            self.is_recursive = True
            return _Extent(1, 1)  # the branch of a union, or the count of an array or a map, ends each recursion
        return known

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> _Extent:
        kind = schema["type"]
        match kind:
            case "array":
                if self.extent(schema["items"], depth + 1).size_bytes < 1:
                    raise ValueError("items of an array need no bytes")
                return _Extent(1, 1)
            case "map":
                self.extent(schema["values"], depth + 1)
                return _Extent(1, 1)
            case "enum":
                return self._keep(schema, _Extent(1, 1))
            case "fixed":
                if not 0 <= int(schema["size"]) < 1 << 31:
                    raise ValueError("the size of a fixed type is wrong")
                return self._keep(schema, _Extent(1, int(schema["size"])))
            case "record" | "error":
                self._known[schema["name"]] = None
                fields = [self.extent(each["type"], depth + 1) for each in schema["fields"]]
                extent = _Extent(1 + sum(each.values for each in fields), sum(each.size_bytes for each in fields))
                return self._keep(schema, extent)
            case _:
                return self.extent(kind, depth + 1)

    def _keep(self, schema: Mapping[str, Any], extent: _Extent) -> _Extent:
        self._known[schema["name"]] = extent
        return extent


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value for key, value in schema.items() if key != "logicalType"}
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _without_logical_types(found[key])
    if isinstance(found.get("fields"), list):
        found["fields"] = [_without_logical_types(each) for each in found["fields"]]
    return found


def _json_value(datum: Any) -> Any:
    match datum:
        case dict():
            return {key: _json_value(value) for key, value in datum.items()}
        case list():
            return [_json_value(each) for each in datum]
        case bytes():
            return datum.decode("latin-1")
        case float() if not math.isfinite(datum):
            return "NaN" if math.isnan(datum) else "Infinity" if datum > 0 else "-Infinity"
        case datetime() | date() | time():
            return datum.isoformat()
        case Decimal() | UUID():
            return str(datum)
        case _:
            return datum
