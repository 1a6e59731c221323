"""What a partition's folder holds: the names of its files, its `partition.metadata`, and how files of segments leave it.

Rules: functions with a file system block, they are jobs.
Source: Kafka LocalLog, PartitionMetadataFile; KIP-516.
"""

from __future__ import annotations

from protocol.primitives import DecodeError, uuid_from_text, uuid_to_text
from runtime.filesystem import FileSystem
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, segment_path

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
MOVED_FILE = "moved"
"""Marks a copy that has everything, see `storage.directories.future_logs`."""
SEGMENT_SUFFIXES = (LOG_SUFFIX, OffsetIndex.suffix, TimeIndex.suffix, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)


def partition_folder(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def rename_folder(filesystem: FileSystem, source: str, target: str) -> None:
    """Within its log directory. When it has returned, no loss of power undoes it."""
    filesystem.rename(source, target)
    filesystem.sync_directory(parent_of(target))


def unmark(filesystem: FileSystem, path: str) -> None:
    """The folder is that of a log, or of a copy that has not everything. When this has returned, no loss of power undoes it:
    with the mark of a later move, in another directory, no start would know which of the two is the log."""
    filesystem.unlink(f"{path}/{MOVED_FILE}")
    filesystem.sync_directory(path)


def remove_segment_files(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """The `.log` goes first: indexes alone are put right by the next start, and a segment below the recovery point without
    its transaction index would not be."""
    for suffix in SEGMENT_SUFFIXES:
        filesystem.unlink(segment_path(directory, base_offset, suffix))


def set_segments_aside(filesystem: FileSystem, directory: str, base_offsets: list[int]) -> list[str]:
    """Mark the files of segments `.deleted`; answers the new paths, which the caller removes later. In the order of
    `remove_segment_files`."""
    paths: list[str] = []
    for base_offset in base_offsets:
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(directory, base_offset, suffix)
            if filesystem.exists(path):
                filesystem.rename(path, f"{path}.deleted")
                paths.append(f"{path}.deleted")
    if paths:  # the recovery point lies behind them: one that came back torn would not be walked
        filesystem.sync_directory(directory)
    return paths


def parse_partition_metadata(content: bytes) -> bytes:
    """The topic id in a `partition.metadata` file. Raises DecodeError."""
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            return uuid_from_text(value.strip())
    raise DecodeError("no topic_id in partition.metadata")


def format_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()
