"""What a consumer instance is made of: its name, and what its maker and the process say about it. Pure.

Source: Confluent REST Proxy, CreateConsumerInstanceRequest and KafkaRestConfig.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from client.reading.positions import Reset
from config.web import WebSettings
from web.errors import HttpProblem
from web.rest_v2.errors import CONSTRAINT, INVALID_CONFIG
from web.rest_v2.forms import EmbeddedFormat
from web.rest_v2.models import NewInstance

_RESETS: Final = {"earliest": Reset.EARLIEST, "latest": Reset.LATEST, "none": Reset.NONE}
_MAX_OF_MIN_BYTES: Final = 10_000_000
_NO_LIMIT: Final = -1
_MAX_TIMEOUT_MS: Final = 300_000
_WITH_SCHEMA: Final = (EmbeddedFormat.AVRO, EmbeddedFormat.JSONSCHEMA, EmbeddedFormat.PROTOBUF)


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """A read waits for `timeout_ms`, or until it has `min_bytes` of keys and values, None: it waits for the time. It returns up
    to `max_bytes`."""

    group: str
    name: str
    form: EmbeddedFormat
    reset: Reset
    commits_by_itself: bool
    min_bytes: int | None
    timeout_ms: int
    max_bytes: int


def instance_settings(group: str, name: str, wanted: NewInstance, settings: WebSettings) -> InstanceSettings:
    """Return the settings of an instance; `name` is for one that has none. Raises HttpProblem."""
    form = _format(wanted.format)
    if form in _WITH_SCHEMA and not settings.schema_registry_url:
        raise _invalid(f"format={form.value} needs schema.registry.url, which this process does not have")
    reset = wanted.auto_offset_reset or "latest"
    if reset not in _RESETS:
        raise _invalid(
            f"Invalid value {reset} for configuration auto.offset.reset: String must be one of: {', '.join(_RESETS)}"
        )
    timeout_ms = wanted.consumer_request_timeout_ms
    if timeout_ms is None:
        timeout_ms = settings.barnabas_web_consumer_request_timeout_ms
    return InstanceSettings(
        group=group,
        name=wanted.id or wanted.name or name,
        form=form,
        reset=_RESETS[reset],
        commits_by_itself=wanted.auto_commit_enable is not False,
        min_bytes=_min_bytes(_NO_LIMIT if wanted.fetch_min_bytes is None else wanted.fetch_min_bytes),
        timeout_ms=_between("consumer.request.timeout.ms", timeout_ms, 0, _MAX_TIMEOUT_MS),
        max_bytes=settings.barnabas_web_consumer_request_max_bytes,
    )


def _format(name: str | None) -> EmbeddedFormat:
    try:
        return EmbeddedFormat((name or EmbeddedFormat.BINARY.value).lower())
    except ValueError:
        raise HttpProblem(422, "Invalid format type.") from None


def _min_bytes(value: int) -> int | None:
    _between("fetch.min.bytes", value, _NO_LIMIT, _MAX_OF_MIN_BYTES)
    return None if value == _NO_LIMIT else value


def _between(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        text = f"Invalid value {value} for configuration {name}: it is not in [{low}...{high}]"
        raise HttpProblem(
            422,
            f"Invalid consumer configuration. It does not abide by the constraints: {text}",
            number=CONSTRAINT,
        )
    return value


def _invalid(text: str) -> HttpProblem:
    return HttpProblem(422, f"Invalid consumer configuration: {text}", number=INVALID_CONFIG)
