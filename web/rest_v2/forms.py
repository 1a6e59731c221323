"""The forms of requests and answers of REST v2: media types, embedded formats, errors.

    application/vnd.kafka[.EMBEDDED_FORMAT].v2+json

Rules: the format of records in a request is that of its Content-Type, binary where it names none, and that of records in an
answer is the consumer's own. Every answer is `application/vnd.kafka.v2+json`, but for records. These types are none that a
browser sends to another site without asking it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from client.errors import LoginRefused
from protocol.errors import KafkaError
from web.errors import HttpProblem
from web.rest_v2.errors import problem_of

MEDIA_TYPE: Final = "application/vnd.kafka.v2+json"
_FORMS: Final = re.compile(r"application/vnd\.kafka(?:\.(binary|json|avro|jsonschema|protobuf))?\.v2\+json")


class EmbeddedFormat(Enum):
    """How keys and values stand in JSON."""

    BINARY = "binary"
    JSON = "json"
    AVRO = "avro"
    JSONSCHEMA = "jsonschema"
    PROTOBUF = "protobuf"

    @property
    def media_type(self) -> str:
        return f"application/vnd.kafka.{self.value}.v2+json"


class V2Response(JSONResponse):
    media_type = MEDIA_TYPE


class ErrorAnswer(BaseModel):
    """The codes are those of `web.rest_v2.errors`."""

    error_code: int
    message: str


class V2Route(APIRoute):
    """Gives errors the form of this interface."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except HttpProblem as error:
                problem = error
            except (KafkaError, OSError, LoginRefused) as error:
                problem = problem_of(error)
            except RequestValidationError as error:
                problem = _invalid(error)
            return V2Response(problem.body(request.url.path), problem.status, problem.headers)

        return answer


def v2_router(prefix: str = "", dependencies: Sequence[Depends] = ()) -> APIRouter:
    """Return a router of endpoints of REST v2."""
    responses: dict[int | str, dict[str, Any]] = {
        "4XX": {"model": ErrorAnswer, "description": "The request is refused."},
        "5XX": {"model": ErrorAnswer, "description": "The cluster or this server fails."},
    }
    return APIRouter(
        prefix=prefix,
        route_class=V2Route,
        default_response_class=V2Response,
        responses=responses,
        tags=["REST v2"],
        dependencies=dependencies,
    )


def _invalid(error: RequestValidationError) -> HttpProblem:
    rows = error.errors()
    is_malformed = any(row["type"] == "json_invalid" for row in rows)
    texts = [f"{'.'.join(str(each) for each in row['loc'][1:]) or row['loc'][0]}: {row['msg']}" for row in rows[:10]]
    return HttpProblem(400 if is_malformed else 422, "; ".join(texts))


def format_of_content(request: Request) -> EmbeddedFormat:
    """Return the format of the records of a request. Raises HttpProblem."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    found = _FORMS.fullmatch(content_type)
    if found is None:
        raise HttpProblem(415, f"HTTP 415 Unsupported Media Type: use {EmbeddedFormat.BINARY.media_type}")
    return EmbeddedFormat(found[1] or "binary")


def accepts(request: Request, wanted: EmbeddedFormat) -> bool:
    """Return whether a request takes records in this format: what is not this interface's is not looked at, and a request that
    names no format takes any."""
    named = [
        found[1] or "binary"
        for each in request.headers.get("accept", "").lower().split(",")
        if (found := _FORMS.fullmatch(each.partition(";")[0].strip()))
    ]
    return not named or wanted.value in named
