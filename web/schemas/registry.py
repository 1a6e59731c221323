"""A client of a schema registry, and the decoders of the schemas that it has given.

Rules: schemas never change, so each is asked for once, by one request even if many records wait for it. Records name any ids
they like: at most so many decoders are kept (those used last), an id that failed is not asked for again for a while, and only
few requests run at a time. An answer is read up to a limit.
Errors: DecodeError for a schema that is unknown or unusable, and for bytes that are not framed; RegistryUnavailable.
Source: Confluent's Schema Registry API, which Karapace and Apicurio serve as well.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx

from config.web import WebSettings
from runtime.clock import Clock
from web.schemas.contract import (
    DecodeError,
    Decoder,
    ReferencedSchema,
    RegisteredSchema,
    RegistryUnavailable,
    RegistryValue,
    SchemaKind,
)
from web.schemas.decoders import decoder_of
from web.schemas.framing import Framed, framed
from web.surroundings import Surroundings

MAX_SCHEMAS: Final = 500
MAX_FAILURES: Final = 10_000
MAX_REFERENCES: Final = 100
MAX_ANSWER_BYTES: Final = 2 << 20
MAX_REQUESTS: Final = 4
FAILURE_MS: Final = 30_000
"""For how long an id that failed is not asked for again."""
OUTAGE_MS: Final = 3_000
"""The same for an id that no registry answered."""
TIMEOUT_S: Final = 10.0
MAX_DECODED_BYTES: Final = 4 << 20
"""Longer values are not decoded: as objects of Python they would take many times their length."""
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


def registry_of(settings: WebSettings, surroundings: Surroundings) -> SchemaRegistry | None:
    """Return the registry that the settings name; None without one."""
    if not settings.schema_registry_url:
        return None
    login = settings.schema_registry_basic_auth_user_info
    user, _, password = login.value.partition(":") if login is not None else ("", "", "")
    return SchemaRegistry(
        surroundings.http,
        settings.schema_registry_url,
        surroundings.clock,
        login=None if login is None else (user, password),
    )


class SchemaRegistry:
    """`urls` are asked one after the other until one answers; `login` is a user name with a password."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        urls: Sequence[str],
        clock: Clock,
        *,
        login: tuple[str, str] | None = None,
        max_decoded_bytes: int = MAX_DECODED_BYTES,
    ) -> None:
        self._http = http
        self._urls = [each.rstrip("/") for each in urls]
        self._clock = clock
        self._auth = None if login is None else httpx.BasicAuth(*login)
        self._max_decoded_bytes = max_decoded_bytes
        self._decoders: OrderedDict[int, tuple[Decoder, SchemaKind]] = OrderedDict()
        self._failed: OrderedDict[int, tuple[int, str, type[Exception]]] = OrderedDict()  # until when, and why
        self._asked: dict[int, asyncio.Lock] = {}
        self._requests = asyncio.Semaphore(MAX_REQUESTS)

    async def decode(self, data: bytes, *, is_exact: bool = False) -> RegistryValue:
        """Return what a key or value says; `is_exact` as in `Decoder.decode`. Raises DecodeError, RegistryUnavailable."""
        found = self._framed(data)
        if found.schema_id not in self._decoders:
            await self._fetch(found.schema_id)
        return self._decoded(found, is_exact=is_exact)

    def decode_known(self, data: bytes, *, is_exact: bool = False) -> RegistryValue | None:
        """Return it without asking the registry; None where `decode` would. Raises DecodeError,
        RegistryUnavailable while it is known to be."""
        found = self._framed(data)
        if found.schema_id not in self._decoders:
            self._raise_failed(found.schema_id)
            return None
        return self._decoded(found, is_exact=is_exact)

    def _framed(self, data: bytes) -> Framed:
        found = framed(data)
        if found is None:
            raise DecodeError("the value does not begin with a zero byte and the id of a schema")
        if len(found.payload) > self._max_decoded_bytes:
            raise DecodeError(
                f"the value has {len(found.payload)} bytes: more than {self._max_decoded_bytes} are not decoded"
            )
        return found

    def _decoded(self, found: Framed, *, is_exact: bool) -> RegistryValue:
        self._decoders.move_to_end(found.schema_id)
        decoder, kind = self._decoders[found.schema_id]
        value, name = decoder.decode(found.payload, is_exact=is_exact)
        return RegistryValue(value, found.schema_id, kind, name)

    # --- schemas ---

    async def _fetch(self, schema_id: int) -> None:
        """Return when the decoder is there. Raises DecodeError, RegistryUnavailable."""
        lock = self._asked.setdefault(schema_id, asyncio.Lock())
        try:
            async with lock:
                self._raise_failed(schema_id)
                if schema_id in self._decoders:
                    return
                async with self._requests:
                    schema = await self._schema(schema_id)
                self._decoders[schema_id] = decoder_of(schema), schema.kind
                if len(self._decoders) > MAX_SCHEMAS:
                    self._decoders.popitem(last=False)
        except (DecodeError, RegistryUnavailable) as error:
            self._fail(schema_id, error)
            raise
        finally:
            if not lock.locked():
                self._asked.pop(schema_id, None)

    def _fail(self, schema_id: int, error: DecodeError | RegistryUnavailable) -> None:
        for_ms = FAILURE_MS if isinstance(error, DecodeError) else OUTAGE_MS
        self._failed.setdefault(schema_id, (self._clock.monotonic_ms() + for_ms, str(error), type(error)))
        if len(self._failed) > MAX_FAILURES:
            self._failed.popitem(last=False)

    def _raise_failed(self, schema_id: int) -> None:
        until_ms, reason, kind = self._failed.get(schema_id, (0, "", DecodeError))
        if until_ms > self._clock.monotonic_ms():
            raise kind(reason)
        self._failed.pop(schema_id, None)

    async def _schema(self, schema_id: int) -> RegisteredSchema:
        found = await self._get(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        name = found.get("schemaType") or SchemaKind.AVRO.value
        try:
            kind = SchemaKind(name)
        except ValueError:
            raise DecodeError(f"schema {schema_id} is of the unknown type {name}") from None
        if kind is SchemaKind.PROTOBUF:
            found = await self._get(f"/schemas/ids/{schema_id}?format=serialized", f"schema {schema_id}")
        references: dict[str, ReferencedSchema] = {}
        if kind is not SchemaKind.JSON:  # which decodes without them
            await self._collect(found, kind, references, set())
        return RegisteredSchema(schema_id, kind, _text(found, "schema"), tuple(references.values()))

    async def _collect(
        self, schema: Any, kind: SchemaKind, references: dict[str, ReferencedSchema], begun: set[str]
    ) -> None:
        """Add what a schema refers to, each behind what it refers to itself. Raises DecodeError, RegistryUnavailable."""
        rows = schema.get("references") or []
        if not isinstance(rows, list):
            raise RegistryUnavailable("the schema registry's answer has references that are no list")
        for row in rows:
            name, subject, version = _text(row, "name"), _text(row, "subject"), row.get("version")
            if not isinstance(version, int):
                raise RegistryUnavailable("the schema registry's answer has a reference without its version")
            if name in begun:
                continue
            begun.add(name)
            if len(begun) > MAX_REFERENCES:
                raise DecodeError(f"a schema refers to more than {MAX_REFERENCES} others")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            if kind is SchemaKind.PROTOBUF:
                path += "?format=serialized"
            found = await self._get(path, f"{subject}, version {version}")
            await self._collect(found, kind, references, begun)
            references[name] = ReferencedSchema(name, _text(found, "schema"))

    # --- requests ---

    async def _get(self, path: str, what: str) -> dict[str, Any]:
        """Return the answer of the first registry that gives one. Raises DecodeError when it knows no such thing,
        RegistryUnavailable."""
        reasons: list[str] = []
        for url in self._urls:
            try:
                async with self._http.stream(
                    "GET", url + path, headers={"Accept": _ACCEPT}, auth=self._auth, timeout=TIMEOUT_S
                ) as response:
                    content = await _content(response)
            except httpx.HTTPError as error:
                reasons.append(str(error) or type(error).__name__)
                continue
            if response.status_code == httpx.codes.NOT_FOUND:
                raise DecodeError(f"the schema registry does not know {what}")
            if response.status_code != httpx.codes.OK:
                reasons.append(f"HTTP status {response.status_code}")
                continue
            try:
                found = json.loads(content)
            except ValueError:
                reasons.append("an answer that is no JSON")
                continue
            if isinstance(found, dict):
                return found
            reasons.append("an answer that is no object")
        raise RegistryUnavailable(f"the schema registry gave no {what}: {'; '.join(dict.fromkeys(reasons))}")


async def _content(response: httpx.Response) -> bytes:
    """Raises DecodeError for an answer that is too long, httpx.HTTPError."""
    parts: list[bytes] = []
    size_bytes = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size_bytes += len(part)
        if size_bytes > MAX_ANSWER_BYTES:
            raise DecodeError(f"the schema registry's answer has more than {MAX_ANSWER_BYTES} bytes")
    return b"".join(parts)


def _text(row: Any, key: str) -> str:
    """Raises RegistryUnavailable for an answer without it."""
    found = row.get(key) if isinstance(row, dict) else None
    if not isinstance(found, str):
        raise RegistryUnavailable(f"the schema registry's answer has no {key}")
    return found
