"""Notifications: numbered nodes in a folder, each about something that has changed.

Rules: what changed is written before its notification, so that brokers read the new state. Every broker processes all of them
in order and removes those that are old enough to have been seen by all.
Source: Kafka ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from metadata.store.port import Delete, Tree, Watch

EXPIRATION_MS = 15 * 60 * 1000  # Kafka's: a broker that is suspended longer reads everything with its new session
PURGE_PAUSE_MS = 60_000
"""How often a broker removes old ones, at most."""


@dataclass(frozen=True, slots=True)
class ChangeNode:
    """`sequence` orders the notifications of a folder."""

    sequence: int
    name: str
    data: bytes


async def nodes_after(
    store: Tree, folder: str, prefix: str, sequence: int, watch: Watch | None = None
) -> list[ChangeNode]:
    """Return the notifications after `sequence` (-1: all), in order. `watch` is set on the list. Raises StoreError."""
    names = await store.children(folder, watch)
    # They remain for a quarter of an hour, and there may be thousands: only those at the end are read.
    known = f"{prefix}{sequence:010}" if sequence >= 0 else ""
    newer = [
        (int(name.removeprefix(prefix)), name)
        for name in names[bisect_right(names, known) :]
        if name.startswith(prefix) and name.isascii() and name.removeprefix(prefix).isdigit()
    ]
    nodes = await store.read_many([f"{folder}/{name}" for _, name in newer])
    return [
        ChangeNode(number, name, node[0]) for (number, name), node in zip(newer, nodes, strict=True) if node is not None
    ]


async def purge(store: Tree, folder: str, now_ms: int) -> int:
    """Remove notifications older than EXPIRATION_MS; returns how many. Raises StoreError."""
    names = await store.children(folder)
    paths = [f"{folder}/{name}" for name in names]
    nodes = await store.read_many(paths)
    old = [
        path
        for path, node in zip(paths, nodes, strict=True)
        if node is not None and node[1].ctime_ms + EXPIRATION_MS < now_ms
    ]
    await store.write_many([[Delete(path)] for path in old])
    return len(old)
