"""A schema registry in memory, with Confluent's paths and answers, as a transport of httpx."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import fastavro
import httpx
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.doubles.clock import ManualClock
from web.schemas.framing import with_frame
from web.schemas.registry import SchemaRegistry

URL = "http://registry.test:8081"


class FakeRegistry(httpx.AsyncBaseTransport):
    """`asked` are the paths of the requests. While `is_down` nobody answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_down = False
        self.login: tuple[str, str] | None = None
        self._schemas: dict[int, dict[str, Any]] = {}
        self._versions: dict[tuple[str, int], int] = {}

    def add(self, text: str | bytes, kind: str = "AVRO", references: Mapping[str, int] | None = None) -> int:
        """Return the id of a schema; `bytes` are a serialized file of Protobuf. `references` are ids by their names."""
        schema_id = len(self._schemas) + 100
        answer: dict[str, Any] = {"schema": base64.b64encode(text).decode() if isinstance(text, bytes) else text}
        if kind != "AVRO":
            answer["schemaType"] = kind
        rows = [{"name": name, "subject": f"s/{found}", "version": 1} for name, found in (references or {}).items()]
        if rows:
            answer["references"] = rows
        self._schemas[schema_id] = answer
        self._versions[f"s/{schema_id}", 1] = schema_id
        return schema_id

    def add_avro(self, schema: Any, references: Mapping[str, int] | None = None) -> int:
        return self.add(json.dumps(schema), references=references)

    def add_proto(self, file: FileDescriptorProto, references: Mapping[str, int] | None = None) -> int:
        return self.add(file.SerializeToString(), "PROTOBUF", references)

    def client(self, clock: ManualClock | None = None, **options: Any) -> SchemaRegistry:
        return SchemaRegistry(httpx.AsyncClient(transport=self), [URL], clock or ManualClock(), **options)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("refused", request=request)
        if self.login is not None and request.headers.get("authorization") != httpx.BasicAuth(*self.login)._auth_header:
            return httpx.Response(401)
        path, _, query = request.url.raw_path.decode().partition("?")
        self.asked.append(path)
        match path.split("/")[1:]:
            case ["schemas", "ids", schema_id]:
                found = self._schemas.get(int(schema_id))
            case ["subjects", subject, "versions", version]:
                found = self._schemas.get(self._versions.get((unquote(subject), int(version)), -1))
            case _:
                found = None
        if found is None:
            return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})
        if found.get("schemaType") == "PROTOBUF" and query != "format=serialized":
            return httpx.Response(200, json={**found, "schema": 'syntax = "proto3";'})
        return httpx.Response(200, json=found)


def avro_bytes(schema_id: int, schema: Any, datum: Any) -> bytes:
    """Return a framed value of Avro."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    return with_frame(schema_id, stream.getvalue())
