"""Every change of a ZooKeeper server's nodes, in order, read from its transaction log.

A watch tells only that a node has changed, and misses what is changed again before the node is read. The log has everything.
Source: ZooKeeper's FileTxnLog, and the records of zookeeper.jute.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CREATE, DELETE, SET_DATA = 1, 2, 5
MULTI = 14
CREATES = (CREATE, 15, 19, 21)  # also containers, with a time to live, and those that answer a Stat
FILE_HEADER_BYTES = 16
ENTRY_HEADER = struct.Struct(">qi")
TRANSACTION_HEADER = struct.Struct(">qiqqi")


@dataclass(frozen=True)
class Change:
    """A node that was created or set, or deleted: then `data` is None. `version` is that of its data."""

    zxid: int
    path: str
    data: bytes | None
    version: int


def changes(folder: Path) -> Iterator[Change]:
    """`folder` is the server's data directory."""
    for path in sorted((folder / "version-2").glob("log.*"), key=lambda each: int(each.suffix[1:], 16)):
        content = path.read_bytes()
        position = FILE_HEADER_BYTES
        while position + ENTRY_HEADER.size <= len(content):
            _, length = ENTRY_HEADER.unpack_from(content, position)
            if length == 0 or position + ENTRY_HEADER.size + length > len(content):
                break  # the rest is allocated, and not written yet
            start = position + ENTRY_HEADER.size
            yield from _transaction(content[start : start + length])
            position = start + length + 1


def _transaction(entry: bytes) -> Iterator[Change]:
    _, _, zxid, _, kind = TRANSACTION_HEADER.unpack_from(entry)
    body = entry[TRANSACTION_HEADER.size :]
    if kind != MULTI:
        yield from _change(zxid, kind, body)
        return
    (count,) = struct.unpack_from(">i", body)
    position = 4
    for _ in range(count):
        kind, length = struct.unpack_from(">ii", body, position)
        yield from _change(zxid, kind, body[position + 8 : position + 8 + length])
        position += 8 + length


def _change(zxid: int, kind: int, body: bytes) -> Iterator[Change]:
    if kind not in (*CREATES, DELETE, SET_DATA):
        return
    path, position = _buffer(body, 0)
    if kind == DELETE:
        yield Change(zxid, path.decode(), None, -1)
        return
    data, position = _buffer(body, position)
    version = struct.unpack_from(">i", body, position)[0] if kind == SET_DATA else 0
    yield Change(zxid, path.decode(), data, version)


def _buffer(body: bytes, position: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">i", body, position)
    end = position + 4 + max(length, 0)
    return body[position + 4 : end], end
