"""Offsets of OffsetCommit and OffsetFetch version 0: in the store, under the paths of the oldest consumers.

    /consumers/<group>/offsets/<topic>/<partition> -> the offset in decimal

Rules: independent of the group coordinator.
Source: Kafka KafkaZkClient.setOrCreateConsumerOffset, getConsumerOffset.
"""

from __future__ import annotations

from config.java_values import java_integer
from metadata.store.port import NodeExistsError, NoNodeError, Store, ensure_path, parent_of
from protocol.errors import ErrorCode, KafkaError

_NOT_IN_PATHS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def offset_path(group_id: str, topic: str, partition: int) -> str:
    """Return the path of an offset. Raises UNKNOWN_SERVER_ERROR, as Kafka, for a group that cannot be in a path, such as ""."""
    parts = group_id.split("/")
    if any(part in ("", ".", "..") for part in parts) or not _NOT_IN_PATHS.isdisjoint(group_id):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The group {group_id!r} cannot be part of a store's path.")
    return f"/consumers/{group_id}/offsets/{topic}/{partition}"


async def commit_legacy_offset(store: Store, group_id: str, topic: str, partition: int, offset: int) -> None:
    """Raises KafkaError, StoreError."""
    path = offset_path(group_id, topic, partition)
    data = str(offset).encode()
    try:
        await store.set(path, data)
    except NoNodeError:
        await ensure_path(store, parent_of(path))
        try:
            await store.create(path, data)
        except NodeExistsError:
            await store.set(path, data)


async def fetch_legacy_offset(store: Store, group_id: str, topic: str, partition: int) -> int | None:
    """Return a committed offset, None if there is none. Raises KafkaError, StoreError."""
    path = offset_path(group_id, topic, partition)
    try:
        data, _stat = await store.get(path)
    except NoNodeError:
        return None
    try:
        return java_integer(data.decode("utf-8", "replace"), 64)
    except ValueError:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path} holds no offset.") from None
