"""Where reading begins and ends in each partition: asks the cluster, by what a request selects.

Errors: KafkaError for a topic that does not exist or may not be read, OSError, HttpProblem for a partition that does
not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from client.admin.offsets import NO_OFFSET, offsets
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from web.errors import HttpProblem
from web.messages.cursors import CursorKind
from web.messages.progress import PartitionRange
from web.messages.selection import Selection, Start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from web.cluster.user_cluster import UserCluster

_LOOK_UP_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """`first` and `end` by partition; `failed` says of the others why they are not known."""

    first: Mapping[int, int]
    end: Mapping[int, int]
    failed: dict[int, str] = field(default_factory=dict)


async def bounds(cluster: UserCluster, selection: Selection) -> Bounds:
    """Return where the selected partitions begin and end now."""
    partitions = await _partitions(cluster, selection)
    failed: dict[int, str] = {}
    first = await _offsets(cluster, selection, dict.fromkeys(partitions, EARLIEST), failed)
    end = await _offsets(cluster, selection, dict.fromkeys(first, LATEST), failed)
    return Bounds({each: first[each] for each in end}, end, failed)


async def ranges(cluster: UserCluster, selection: Selection, found: Bounds) -> list[PartitionRange]:
    """Return what is to be read forward, up to the ends now. Where a cursor names a position, it begins there."""
    starts = dict(found.first)
    if selection.start is Start.END:
        starts = dict(found.end)
    elif selection.start is Start.TIME:
        since_ms = selection.conditions.since_ms
        assert since_ms is not None
        times = await _offsets(cluster, selection, dict.fromkeys(found.end, since_ms), found.failed)
        starts = {each: found.end[each] if at == NO_OFFSET else at for each, at in times.items()}
    elif selection.start is Start.OFFSET:
        starts = dict.fromkeys(found.end, selection.offset)
    made = []
    cursor = selection.cursor
    for partition, begin in starts.items():
        start, end, is_continued = begin, found.end[partition], False
        if cursor is not None:
            if partition in cursor.done:
                continue
            is_continued = partition in cursor.positions
            start, end = cursor.positions.get(partition, (start, end))
            end = min(end, found.end[partition])
        first, note = found.first[partition], ""
        if start < first < end and (cursor is not None or selection.start is Start.OFFSET):
            note = f"the records before {first} are deleted"
        made.append(PartitionRange(partition, min(max(start, first), end), end, note, is_continued))
    return made


async def page_ranges(cluster: UserCluster, selection: Selection, found: Bounds) -> tuple[list[PartitionRange], bool]:
    """Return the ranges of a page, and whether it goes backward from their ends."""
    cursor = selection.cursor
    if cursor is None and selection.start is not Start.LAST:
        return await ranges(cluster, selection, found), False
    made = []
    for partition, end in found.end.items():
        first = found.first[partition]
        if cursor is None:
            made.append(PartitionRange(partition, first, end))
        elif partition in cursor.positions:
            at = min(max(cursor.positions[partition][0], first), end)
            is_older = cursor.kind is CursorKind.OLDER
            made.append(PartitionRange(partition, first, at) if is_older else PartitionRange(partition, at, end))
    return made, cursor is None or cursor.kind is CursorKind.OLDER


async def _partitions(cluster: UserCluster, selection: Selection) -> Iterable[int]:
    topics = await cluster.topics([selection.topic])
    if selection.topic not in topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {selection.topic}")
    there = topics[selection.topic].partitions
    if selection.partitions is None:
        return list(there)
    for each in selection.partitions:
        if each not in there:
            raise HttpProblem(
                404,
                f"{selection.topic} has no partition {each}: they are 0 to {len(there) - 1}",
                code="UNKNOWN_TOPIC_OR_PARTITION",
            )
    return selection.partitions


async def _offsets(
    cluster: UserCluster, selection: Selection, times: Mapping[int, int], failed: dict[int, str]
) -> dict[int, int]:
    """Return the offsets at these times; why there is none goes to `failed`. Raises KafkaError where that does not pass."""
    if not times:
        return {}
    found = await cluster.run(
        offsets(
            {(selection.topic, partition): time for partition, time in times.items()},
            is_committed_only=selection.is_committed,
        ),
        _LOOK_UP_MS,
    )
    known: dict[int, int] = {}
    for (_, partition), offset in found.items():
        if not isinstance(offset, KafkaError):
            known[partition] = offset
        elif offset.code.retriable:
            failed[partition] = str(offset)
        else:
            raise offset
    return known
