"""Checks answers against the OpenAPI description of the application that gave them.

Rules: an answer in JSON whose address is described has a described status, and the form that is described for it. A keyword of
a schema that is not known here is an error: what is not understood is not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float),
    "null": (type(None),),
}  # fmt: skip
_NOTES = {"title", "description", "default", "format", "examples", "minimum", "maximum", "minLength", "maxLength"}
_RULES = {
    "$ref",
    "anyOf",
    "allOf",
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "maxItems",
}


def _values(text: str) -> Iterator[Any]:
    """The JSON values that stand one after the other: a stream has several."""
    decoder, left = json.JSONDecoder(), text.lstrip()
    while left:
        value, length = decoder.raw_decode(left)
        left = left[length:].lstrip()
        yield value


class Description:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        paths = sorted(document["paths"], key=lambda path: path.count("{"))
        self._paths = [(re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), path) for path in paths]

    async def check(self, response: httpx.Response) -> None:
        """A hook of httpx."""
        request = response.request
        path = request.url.raw_path.split(b"?")[0].decode()
        operation = self.operation(request.method, path)
        media_type = response.headers.get("content-type", "").partition(";")[0]
        if operation is None or not media_type.endswith(("/json", "+json")):
            return
        schema = self._schema(operation, response.status_code, media_type)
        await response.aread()
        for value in _values(response.text) if schema is not None else ():
            self._check(schema or {}, value, f"{request.method} {path}: {response.status_code}")

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        for pattern, template in self._paths:
            if pattern.fullmatch(path) and method.lower() in self._document["paths"][template]:
                found: dict[str, Any] = self._document["paths"][template][method.lower()]
                return found
        return None

    def _schema(self, operation: dict[str, Any], status: int, media_type: str) -> dict[str, Any] | None:
        responses = operation["responses"]
        described = responses.get(str(status)) or responses.get(f"{status // 100}XX")
        if described is None:
            assert status >= 400, f"{operation['operationId']} does not describe the status {status}"
            return None
        schema: dict[str, Any] | None = described.get("content", {}).get(media_type, {}).get("schema")
        return schema

    def _check(self, schema: dict[str, Any], value: Any, at: str) -> None:
        unknown = schema.keys() - _NOTES - _RULES
        assert not unknown, f"{at}: the check does not know {unknown}"
        if "$ref" in schema:
            self._check(self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, at)
        for each in schema.get("allOf", ()):
            self._check(each, value, at)
        if "anyOf" in schema:
            failures = [failure for each in schema["anyOf"] if (failure := self._failure(each, value, at))]
            assert len(failures) < len(schema["anyOf"]), failures
        if "type" in schema:
            is_number = not isinstance(value, bool) or schema["type"] == "boolean"
            assert isinstance(value, _TYPES[schema["type"]]) and is_number, f"{at}: {value!r} is no {schema['type']}"
        if "enum" in schema or "const" in schema:
            assert value in schema.get("enum", [schema.get("const")]), f"{at}: {value!r} is not in {schema}"
        if isinstance(value, list):
            assert len(value) <= schema.get("maxItems", len(value)), f"{at}: {len(value)} items"
        if isinstance(value, dict):
            self._check_object(schema, value, at)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            self._check(schema.get("items", {}), item, f"{at}[{index}]")

    def _check_object(self, schema: dict[str, Any], value: dict[str, Any], at: str) -> None:
        missing = set(schema.get("required", ())) - value.keys()
        assert not missing, f"{at}: {missing} is missing"
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, others)
            assert inner is not False, f"{at}: {name} is not described"
            if isinstance(inner, dict):
                self._check(inner, item, f"{at}.{name}")

    def _failure(self, schema: dict[str, Any], value: Any, at: str) -> str:
        try:
            self._check(schema, value, at)
        except AssertionError as error:
            return str(error)
        return ""
