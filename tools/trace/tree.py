"""Records as trees: below each one those that are copies of it, as their headers say. Pure.

Rules: whoever may write to a topic may write any header: a copy says of which record it is one, and nothing else vouches for
it. Records that say so of each other in a circle are told all the same, each once.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from runtime.texts import count_text, size_text, time_text
from tools.group_lag import Key
from tools.trace.readers import GroupPosition
from tools.trace.stored import Fate, Place, StoredRecord

WAITS: Final = "waits"
_MOST_CHARACTERS: Final = 200


class RelayState(NamedTuple):
    """What a relay says of a record: that it waits until `time_ms`, or what became of it then."""

    state: str
    time_ms: int


class Findings(NamedTuple):
    """What is known of records beside what is stored: groups by partitions, transactional ids by producers; by places what a
    relay says, and the places in other clusters of which they are mirrors, and of their mirrors."""

    groups: Mapping[Key, Sequence[GroupPosition]] = {}
    transactional_ids: Mapping[int, str] = {}
    relay_states: Mapping[Place, RelayState] = {}
    originals: Mapping[Place, Place] = {}
    mirrors: Mapping[Place, Place] = {}


@dataclass(slots=True)
class TracedRecord:
    """A record, what is known of it, and its copies."""

    record: StoredRecord
    groups: Sequence[GroupPosition] = ()
    transactional_id: str | None = None
    original: Place | None = None
    mirror: Place | None = None
    relay_state: RelayState | None = None
    copies: list[TracedRecord] = field(default_factory=list)


def trees(records: Iterable[StoredRecord], known: Findings) -> list[TracedRecord]:
    """Return the records that are copies of none of these, the oldest first, with their copies below them."""
    traced = [
        TracedRecord(
            each,
            known.groups.get(each.key_of_partition, ()),
            None
            if each.producer_id is None or each.fate is Fate.NONE
            else known.transactional_ids.get(each.producer_id),
            known.originals.get(each.place),
            known.mirrors.get(each.place),
            known.relay_states.get(each.place),
        )
        for each in sorted(records, key=_order)
    ]
    by_place = {each.record.place: each for each in traced}
    parents: dict[Place, TracedRecord] = {}
    roots = []
    for each in traced:
        parent = None if each.record.source is None else by_place.get(each.record.source)
        if parent is None or _is_above(each, parent, parents):
            roots.append(each)
        else:
            parents[each.record.place] = parent
            parent.copies.append(each)
    return roots


def _order(record: StoredRecord) -> tuple[int, str, int, int]:
    return record.timestamp_ms or 0, *record.place


def _is_above(record: TracedRecord, of: TracedRecord, parents: Mapping[Place, TracedRecord]) -> bool:
    """Whether a record is the other, or one of which the other is a copy by any way."""
    at: TracedRecord | None = of
    while at is not None:
        if at is record:
            return True
        at = parents.get(at.record.place)
    return False


# --- JSON ---


def document(traced: TracedRecord) -> dict[str, Any]:
    """Return a record with its copies for JSON."""
    record, letter = traced.record, traced.record.letter
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp_ms is None else time_text(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": "append" if record.is_append_time else "create",
        **_key_document(record.key),
        "value_bytes": record.value_bytes,
        "leader_epoch": record.leader_epoch,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "sequence": record.sequence,
        "transactional_id": traced.transactional_id,
        "transaction": record.fate.value,
        "is_hidden": record.is_hidden,
        "transaction_end": None
        if record.marker is None
        else {"offset": record.marker.offset, "timestamp_ms": record.marker.timestamp_ms},
        "is_what_was_looked_for": not record.is_followed,
        "source": None if record.source is None else _place_document(record.source),
        "relay": None if traced.relay_state is None else traced.relay_state._asdict(),
        "reason": letter.reason,
        "attempt": letter.attempt,
        "message_id": None if letter.message_id is None else letter.message_id.decode(errors="backslashreplace"),
        "is_cancellation": letter.is_cancellation,
        "mirrored_from": None if traced.original is None else _place_document(traced.original),
        "mirrored_to": None if traced.mirror is None else _place_document(traced.mirror),
        "groups": [
            {
                "group": each.group,
                "state": each.state,
                "committed_offset": each.committed,
                "is_past": each.is_past(record.offset),
                "lag": each.lag,
            }
            for each in traced.groups
        ],
        "copies": [document(each) for each in traced.copies],
    }


def _key_document(key: bytes | None) -> dict[str, str | None]:
    if key is None:
        return {"key": None}
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_base64": base64.b64encode(key).decode()}


def _place_document(place: Place) -> dict[str, Any]:
    return dict(zip(("topic", "partition", "offset"), place, strict=True))


# --- lines ---


def lines(roots: Iterable[TracedRecord]) -> Iterator[str]:
    """Yield the lines of trees for people."""
    for root in roots:
        yield from _lines(root, "", "")


def _lines(traced: TracedRecord, first: str, further: str) -> Iterator[str]:
    yield first + _headline(traced)
    inner = further + ("│  " if traced.copies else "   ")
    for text in _details(traced):
        yield inner + text
    for number, copy in enumerate(traced.copies):
        is_last = number == len(traced.copies) - 1
        yield from _lines(copy, further + ("└─ " if is_last else "├─ "), further + ("   " if is_last else "│  "))


def _headline(traced: TracedRecord) -> str:
    record, letter = traced.record, traced.record.letter
    time = "without time" if record.timestamp_ms is None else time_text(record.timestamp_ms)
    size = "null" if record.value_bytes is None else size_text(record.value_bytes)
    parts = [
        place_text(record.place),
        time,
        f"key {'null' if record.key is None else _bytes_text(record.key)}",
        f"value {size}",
    ]
    if letter.message_id is not None:
        parts.append(f"id {_bytes_text(letter.message_id)}")
    if letter.is_cancellation:
        parts.append("a cancellation")
    if letter.attempt:
        parts.append(f"attempt {letter.attempt}")
    if letter.reason is not None:
        parts.append(f"failed: {letter.reason[:_MOST_CHARACTERS]}")
    return ", ".join(parts)


def _details(traced: TracedRecord) -> Iterator[str]:
    record = traced.record
    if record.is_followed:
        yield "found by the headers of its copy"
    if record.source is not None:
        yield f"copy of {place_text(record.source)}"
    if traced.relay_state is not None:
        state, time_ms = traced.relay_state
        yield f"relay: {state} {'until' if state == WAITS else 'at'} {time_text(time_ms)}"
    if traced.original is not None:
        yield f"mirrored from {place_text(traced.original)} of another cluster"
    if traced.mirror is not None:
        yield f"mirrored to {place_text(traced.mirror)} of the other cluster"
    if record.producer_id is not None:
        yield _producer_text(traced)
    if record.is_hidden:
        yield "hidden from readers of committed records: a transaction is open here or before"
    for group in traced.groups:
        yield _group_text(group, record.offset)


def _producer_text(traced: TracedRecord) -> str:
    record = traced.record
    text = f"producer {record.producer_id}, epoch {record.producer_epoch}"
    if record.fate is Fate.NONE:
        return text
    name = "" if traced.transactional_id is None else f" of {traced.transactional_id}"
    text += f", transaction{name}: {record.fate.value}"
    if record.marker is not None:
        text += f" at offset {record.marker.offset}, {time_text(record.marker.timestamp_ms)}"
    return text


def _group_text(group: GroupPosition, offset: int) -> str:
    left = group.before(offset)
    lag = "unknown" if group.lag is None else str(group.lag)
    if left is None:
        done = "shared nothing" if group.is_share else "committed nothing"
        return f"group {group.group} ({group.state}) has {done} here"
    if group.is_share:
        done = "is done with it" if left == 0 else f"may not be done with it: it begins at offset {group.committed}"
        return f"share group {group.group} ({group.state}) {done}; its lag is {lag}"
    if left == 0:
        return f"group {group.group} ({group.state}) has read past it; its lag is {lag}"
    return (
        f"group {group.group} ({group.state}) has not: it is at {count_text(left, 'offset')} before; its lag is {lag}"
    )


def place_text(place: Place) -> str:
    return f"{place[0]}-{place[1]} offset {place[2]}"


def _bytes_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = f"0x{data.hex()}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
