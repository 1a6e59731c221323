"""Turns a decoded response into plain data that two brokers can agree on.

Ids, ports, folders and clocks become names; arrays of structs are sorted, since Apache Kafka's order there is that of
its hash maps; fields that the version does not have are left out; error codes are written by name.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from protocol.schema import Message
from tests.differential.batches import headers
from tests.differential.wire import NoResponse

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SETS = frozenset(["subscribed_topic_names"])
"""Arrays of texts whose order tells nothing."""
ORDERED = frozenset(["synonyms"])
"""Arrays whose order tells something: the first synonym is the one in force."""

_MISSING_RIGHT = re.compile(r" ?(User:\S+ needs|An ACL denies \S+) the right .*")
"""What our denials add to Kafka's text, or have where Kafka has none: it names who asks, and where from."""

_JAVA_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
"""A member id that the coordinator of a consumer group made."""

_MOMENT = re.compile(r"\b1[0-9]{12}\b")
_AN_HOUR_MS = 3_600_000


class Names:
    """The aliases of one run: whatever is new gets the next number, so that equal things stay equal. More brokers
    than one have more `ports`."""

    def __init__(self, prefix: str, port: int) -> None:
        self.prefix = prefix
        self.ports = {port: "<port>"}
        self.topic_ids: dict[bytes, str] = {ZERO_UUID: "<zero>"}
        self._numbers: dict[str, dict[Any, int]] = {}

    def numbered(self, kind: str, value: Any) -> str:
        seen = self._numbers.setdefault(kind, {})
        return f"<{kind} {seen.setdefault(value, len(seen) + 1)}>"

    def known(self, kind: str) -> list[Any]:
        """What has a number of that kind, in the order of the numbers."""
        return list(self._numbers.get(kind, ()))

    def text(self, value: str) -> str:
        value = value.replace(self.prefix, "")
        value = _MOMENT.sub(lambda match: str(_moment(int(match.group()))), value)
        return _UUID.sub(lambda match: self.numbered("uuid", match.group()), value)


def normalised(answer: Any, version: int, names: Names) -> Any:
    if isinstance(answer, NoResponse):
        return {"outcome": answer.outcome}
    return _message(answer, version, names)


def _message(message: Message, version: int, names: Names) -> dict[str, Any]:
    shown = {}
    for field in message.__fields__:
        if field.versions.covers(version):
            shown[field.name] = _field(field.kind, field.name, getattr(message, field.name), version, names)
    return shown


def _field(kind: str, name: str, value: Any, version: int, names: Names) -> Any:
    if value is None:
        return None
    if kind == "array":
        items = [_field(_kind_of(item), name, item, version, names) for item in value]
        if items and isinstance(items[0], dict) and name not in ORDERED:
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
        return sorted(items) if name in SETS else items
    if kind == "struct":
        return _message(value, version, names)
    if kind == "uuid":
        return names.topic_ids.get(value) or names.numbered("id", value)
    if kind == "records":
        return [_batch(header, names) for header in headers(bytes(value))]
    if name == "error_message" and (told := _MISSING_RIGHT.search(value)):
        value = value[: told.start()] or None
        return value and names.text(value)
    if name == "hmac" and value:
        return names.numbered("hmac", bytes(value))
    if kind == "bytes_":
        return repr(bytes(value))
    if isinstance(value, str):
        return _string(name, value, names)
    if isinstance(value, bool):
        return value
    return _number(name, value, names)


def _kind_of(item: Any) -> str:
    if isinstance(item, Message):
        return "struct"
    return "bytes_" if isinstance(item, bytes) else "scalar"


def _string(name: str, value: str, names: Names) -> str:
    if name == "cluster_id" and value:
        return "<cluster>"
    if name == "token_id" and value:
        return names.numbered("token", value)
    if name == "log_dir" and value:
        return "<folder>"
    if name == "member_id" and _JAVA_UUID.fullmatch(value):
        return names.numbered("member", value)
    return names.text(value)


def _number(name: str, value: Any, names: Names) -> Any:
    if name.endswith("error_code"):
        return ErrorCode(value).name
    if name == "port" and value in names.ports:
        return names.ports[value]
    if name == "throttle_time_ms":
        return "<throttle>"
    if name.endswith("producer_id") and value >= 0:
        return names.numbered("producer", value)
    if name == "session_id" and value:
        return names.numbered("session", value)
    if name == "metadata_hash" and value:
        return names.numbered("hash", value)
    if name in ("total_bytes", "usable_bytes") and value > 0:
        return "<bytes>"
    return _moment(value)


def _moment(value: Any) -> Any:
    """Moments of this hour read `<now>`."""
    return "<now>" if abs(value - time.time() * 1000) < _AN_HOUR_MS else value


def _batch(header: dict[str, int] | str, names: Names) -> str:
    if isinstance(header, str):
        return names.text(header)
    shown: dict[str, Any] = dict(header)
    crc = "valid" if shown["crc_is_valid"] else "wrong"
    text = "{base_offset}+{last_offset_delta}: {count} records, {batch_length} bytes, epoch {leader_epoch}".format(
        **shown
    )
    text += f", attributes {shown['attributes']:#x}, crc {crc}, payload {shown['payload_crc']:08x}"
    text += f", time {_moment(shown['base_timestamp'])} to {_moment(shown['max_timestamp'])}"
    if shown["producer_id"] >= 0:
        producer = names.numbered("producer", shown["producer_id"])
        text += f", producer {producer} epoch {shown['producer_epoch']} sequence {shown['base_sequence']}"
    return text


FreeTexts = Callable[[str | None, str | None], bool]
"""Whether an error message may differ so: the expected one, and the actual one."""


def no_text_is_free(_expected: str | None, _actual: str | None) -> bool:
    return False


def every_text_is_free(_expected: str | None, _actual: str | None) -> bool:
    return True


def differences(expected: Any, actual: Any, path: str = "", *, free: FreeTexts = no_text_is_free) -> list[str]:
    """One line for each place where two normalised answers disagree, but for error messages that are `free`."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        for key in sorted(expected.keys() | actual.keys()):
            if key not in expected or key not in actual:
                found.append(f"{path}.{key}: {'missing' if key not in actual else 'unexpected'}")
            elif key != "error_message" or not free(expected[key], actual[key]):
                found += differences(expected[key], actual[key], f"{path}.{key}", free=free)
        return found
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [
            line for index, (left, right) in pairs for line in differences(left, right, f"{path}[{index}]", free=free)
        ]
    if expected == actual and type(expected) is type(actual):
        return []
    return [f"{path}: expected {json.dumps(expected)}, got {json.dumps(actual)}"]
