"""JSON as it stands in records: read strictly, and decoded by a JSON Schema, which describes the same text. Pure.

Rules: what is returned can be written as JSON again: NaN, infinity and numbers beyond a double's range are errors. Whether a
value obeys its schema is the producer's matter, as for Confluent's consumers.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from web.schemas.contract import DecodeError, RegisteredSchema


def read_json(text: bytes | str) -> Any:
    """Raises DecodeError."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise DecodeError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise DecodeError(f"the value is no JSON: {error}") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:30]} is too large")
    return number


class JsonSchemaDecoder:
    def __init__(self, schema: RegisteredSchema) -> None:
        """Raises DecodeError."""
        found = read_json(schema.text)
        title = found.get("title") if isinstance(found, dict) else None
        self._name = title if isinstance(title, str) else ""

    def decode(self, payload: memoryview, *, is_exact: bool = False) -> tuple[Any, str]:
        """Raises DecodeError."""
        return read_json(payload.tobytes()), self._name
