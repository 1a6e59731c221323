"""Keys and values as they stand in JSON: bytes as base64, or JSON itself. Pure.

Rules: null is no key or value. JSON of a request is written without spaces; JSON of a record goes into an answer as it stands
there, once it is known to be JSON, so that no number changes on the way.
Errors: HttpProblem for what a request says wrongly, DecodeError for a record that is not of the format.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from web.errors import HttpProblem
from web.rest_v2.errors import CONVERSION
from web.rest_v2.forms import EmbeddedFormat
from web.schemas.contract import DecodeError
from web.schemas.json_text import read_json


def to_bytes(what: str, value: Any, form: EmbeddedFormat) -> bytes | None:
    """Return the bytes of a key or value; `what` names it in errors. Raises HttpProblem."""
    if value is None:
        return None
    if form is EmbeddedFormat.JSON:
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        except ValueError as error:  # NaN, or half a character
            raise HttpProblem(422, f"Conversion of JSON to Object failed: {what}: {error}", number=CONVERSION) from None
    if not isinstance(value, str):
        raise HttpProblem(422, f"{what} is no text in base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise HttpProblem(422, f"{what} is no base64") from None


def to_json(data: bytes | None, form: EmbeddedFormat) -> bytes:
    """Return the JSON of a key or value of a record, which needs no schema. Raises DecodeError."""
    if data is None:
        return b"null"
    if form is EmbeddedFormat.BINARY:
        return b'"' + base64.b64encode(data) + b'"'
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DecodeError("it is no JSON: it is not in UTF-8") from None
    read_json(text)
    return data
