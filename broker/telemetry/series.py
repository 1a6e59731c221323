"""The series that clients have pushed, as the page shows them: bounded, and forgotten with their clients.

Each series is kept as the text of its line up to the value. Counters arrive as what was added since the last push and are added
up here, so that the sum of a counter over all brokers grows by what happened, whichever of them a client pushes to. What a push
does not have any more is dropped: a gauge at once, anything else after PUSHES_KEPT pushes.

Rules: pure; times are monotonic, in milliseconds. A client's series go when it has not pushed for three of its intervals (a
minute at least, `age_max_ms` at most), and a minute after its last push, so that Prometheus sees what it ended with. What is
beyond a limit is not kept, and counted by its reason; what is kept stays, whoever comes.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from broker.telemetry.instances import INTERVALS_OF_SILENCE, SILENCE_MIN_MS
from broker.telemetry.unfolding import FamilyKind, Left, Point, PushedResource
from protocol.primitives import uuid_to_text

if TYPE_CHECKING:
    from broker.telemetry.subscriptions import Asked
    from broker.telemetry.unfolding import Item, Labels

PUSHES_KEPT = 3
SHOWN_AFTER_END_MS = 60_000
SWEEP_INTERVAL_MS = 10_000
DROPPED_AT_ONCE = 5_000
SERIES_BYTES = 200
"""What a series takes in memory besides the text of its line."""
CLIENT_FAMILY = "barnabas_client_info"
CLIENT_DOC = "A client that pushes its metrics, with what is known of it; 1."
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_DOC_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class Limits:
    """How many clients, series of one client, names, and bytes in all are kept, and for how long without a push."""

    clients: int
    series_of_client: int
    names: int
    size_bytes: int
    age_max_ms: int


class _Family:
    __slots__ = ("doc", "kind", "name", "values")

    def __init__(self, name: str, kind: FamilyKind, doc: str) -> None:
        self.name = name
        self.kind = kind
        self.doc = doc
        self.values: dict[str, float] = {}  # by line


class _Kept(NamedTuple):
    family: _Family
    push: int


class PushingClient:
    """A client that has pushed. `labels` are those that each of its series has."""

    __slots__ = ("facts", "info", "kept", "labels", "pushes", "until_ms")

    def __init__(self, labels: str, facts: Labels) -> None:
        self.labels = labels
        self.facts = facts
        self.info = ""
        self.pushes = 0
        self.until_ms = 0
        self.kept: dict[str, _Kept] = {}  # by line


class Series:
    """Those of all clients. `left` counts what was left out, by its reason."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._families: dict[str, _Family] = {}
        self._clients: dict[bytes, PushingClient] = {}
        self._count = 0
        self.size_bytes = 0
        """About what the series take in memory."""
        self._swept_ms = 0
        self.left: Counter[Left] = Counter()

    def __len__(self) -> int:
        return self._count

    @property
    def clients_count(self) -> int:
        return len(self._clients)

    @property
    def names_count(self) -> int:
        return len(self._families)

    def begin(self, instance_id: bytes, client_id: str, facts: Labels, now_ms: int) -> Push | None:
        """Begin to take what a client has pushed; `facts` are what is known of it. None when there are too many clients."""
        self.forget_old(now_ms)
        client = self._clients.get(instance_id)
        if client is None:
            if len(self._clients) >= self._limits.clients:
                self.left[Left.CLIENTS] += 1
                return None
            identity = (("client_id", client_id), ("client_instance_id", uuid_to_text(instance_id)))
            client = self._clients[instance_id] = PushingClient(_rendered(identity), facts)
        client.pushes += 1
        return Push(self, instance_id, client)

    def end(self, push: Push, asked: Asked, now_ms: int, *, is_last: bool) -> None:
        """Drop what the push has not got any more, and say until when the client is shown. One without a series is forgotten,
        and takes no place of another."""
        client = push.client
        for line, kept in list(client.kept.items()):
            absent = client.pushes - kept.push
            if absent >= PUSHES_KEPT or (absent and kept.family.kind is FamilyKind.GAUGE):
                self._drop(client, line)
        if not client.kept:
            self._clients.pop(push.instance_id, None)
            return
        silence_ms = max(SILENCE_MIN_MS, min(INTERVALS_OF_SILENCE * asked.interval_ms, self._limits.age_max_ms))
        client.until_ms = now_ms + (SHOWN_AFTER_END_MS if is_last else silence_ms)
        client.info = (
            f"{CLIENT_FAMILY}{{{client.labels}{_rendered(_with_facts(client.facts, push.resource), first=False)}}} 1\n"
        )

    def add(self, client: PushingClient, point: Point) -> None:
        """Take one data point."""
        family = self._families.get(point.family)
        if family is None:
            if len(self._families) >= self._limits.names:
                self.left[Left.NAMES] += 1
                return
            family = _Family(point.family, point.kind, point.doc)
        elif family.kind is not point.kind:
            self.left[Left.KIND] += 1
            return
        labels = client.labels + _rendered(point.labels, first=False)
        lines = [f"{point.family}{each.suffix}{{{labels}{_bound(each.bound)}}}" for each in point.values]
        new = [line for line in lines if line not in family.values]
        left = self._reason_to_leave(client, new) if new else None
        if left is not None:
            self.left[left] += 1
            return
        self._families[family.name] = family
        self._count += len(new)
        self.size_bytes += sum(map(_size_bytes, new))
        for line, (_, _, value) in zip(lines, point.values, strict=True):
            before = family.values.get(line, 0) if point.is_delta else 0
            family.values[line] = before + value
            client.kept[line] = _Kept(family, client.pushes)

    def _reason_to_leave(self, client: PushingClient, new: list[str]) -> Left | None:
        if any(line in client.kept for line in new):
            return Left.KIND  # the count of a histogram, and a gauge that is called so
        if len(client.kept) + len(new) > self._limits.series_of_client:
            return Left.SERIES_OF_CLIENT
        return Left.MEMORY if self.size_bytes + sum(map(_size_bytes, new)) > self._limits.size_bytes else None

    def _drop(self, client: PushingClient, line: str) -> None:
        family = client.kept.pop(line).family
        del family.values[line]
        self._count -= 1
        self.size_bytes -= _size_bytes(line)
        if not family.values:
            self._families.pop(family.name, None)

    def forget_old(self, now_ms: int) -> None:
        """Drop the series of clients that are not shown any more: once in ten seconds, and not too many at once."""
        if now_ms - self._swept_ms < SWEEP_INTERVAL_MS:
            return
        dropped = 0
        for instance_id in [key for key, client in self._clients.items() if client.until_ms <= now_ms]:
            if dropped > DROPPED_AT_ONCE:
                return  # the rest with the next call
            client = self._clients.pop(instance_id)
            dropped += len(client.kept)
            for line in list(client.kept):
                self._drop(client, line)
        self._swept_ms = now_ms

    def page(self) -> Iterator[str]:
        """Yield pieces of the page. What is pushed meanwhile may or may not be on it."""
        if self._clients:
            yield f"# HELP {CLIENT_FAMILY} {CLIENT_DOC}\n# TYPE {CLIENT_FAMILY} gauge\n"
        for client in list(self._clients.values()):
            yield client.info
        for family in sorted(self._families.values(), key=lambda each: each.name):
            yield f"# HELP {family.name} {family.doc.translate(_DOC_ESCAPES)}\n# TYPE {family.name} {family.kind.value}\n"
            for line, value in list(family.values.items()):
                yield f"{line} {_value_text(value)}\n"


class Push:
    """One push of a client that is being taken."""

    __slots__ = ("_series", "client", "instance_id", "resource")

    def __init__(self, series: Series, instance_id: bytes, client: PushingClient) -> None:
        self._series = series
        self.instance_id = instance_id
        self.client = client
        self.resource: Labels = ()

    def take(self, item: Item, asked: Asked) -> None:
        """Take what one step of unfolding gave."""
        if isinstance(item, Point):
            if asked.wants(item.name):
                self._series.add(self.client, item)
            else:
                self._series.left[Left.NOT_ASKED] += 1
        elif isinstance(item, Left):
            self._series.left[item] += 1
        elif isinstance(item, PushedResource):
            self.resource = item.labels


def _with_facts(facts: Labels, resource: Labels) -> Labels:
    """Return what the broker knows, and what the client says besides."""
    known = dict(facts)
    return (*facts, *(label for label in resource if label[0] not in known))


def _rendered(labels: Labels, *, first: bool = True) -> str:
    text = ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels])
    return text if first or not text else f",{text}"


def _value_text(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _bound(bound: str) -> str:
    return f',le="{bound}"' if bound else ""


def _size_bytes(line: str) -> int:
    return SERIES_BYTES + sys.getsizeof(line)  # a letter that is not of Latin-1 makes all of them take 2 or 4 bytes
