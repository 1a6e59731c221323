"""The response to a request that failed as a whole, for the messages that can carry the error.

Rules: pure. A response with a top-level error code gets it there, and is empty otherwise; some have the error in their rows
(`broker.network.error_rows`). For others there is None.
Source: Kafka AbstractRequest.getErrorResponse.
"""

from __future__ import annotations

from functools import cache

from broker.network.error_rows import ROWS
from protocol.errors import ErrorCode
from protocol.fields import REQUIRED, Field, Struct
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.primitives import ZERO_UUID
from protocol.schema import Request, Response

_EMPTY: dict[str, object] = {"string": "", "bytes_": b"", "records": None, "bool_": False, "uuid": ZERO_UUID}


def error_response(request: Request, version: int, code: ErrorCode, message: str | None) -> Response | None:
    """None when the response has no place for a top-level error in this version."""
    in_rows = ROWS.get(type(request))
    if in_rows is not None:
        return in_rows(request, version, code, message)
    response_type = request.response_type
    fields = {field.name: field for field in response_type.__fields__}
    if not _carries(fields.get("error_code"), version):
        return None
    values = required_values(response_type) | {"error_code": code}
    if message is not None and _carries(fields.get("error_message"), version):
        values["error_message"] = message
    return response_type(**values)


def unsupported_api_versions(first_version: int, last_version: int) -> ApiVersionsResponse:
    """The v0 response to ApiVersions in a version that is not served, with the one row that says which are.

    Any client can read it, and one that comes from the future learns from it which version to ask in (KIP-511).
    """
    row = ApiVersion(api_key=ApiVersionsResponse.api_key, min_version=first_version, max_version=last_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])


def _carries(field: Field | None, version: int) -> bool:
    return field is not None and field.versions.covers(version)


@cache
def _required_of(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(field for field in fields if field.default is REQUIRED)


def required_values(message_type: type[Struct]) -> dict[str, object]:
    """Empty values for the fields that must be given."""
    values: dict[str, object] = {}
    for field in _required_of(message_type.__fields__):
        if field.kind == "array":
            values[field.name] = []
        elif field.kind == "struct":
            assert isinstance(field.element, type)
            values[field.name] = field.element(**required_values(field.element))
        else:
            values[field.name] = _EMPTY.get(field.kind, 0)
    return values
