"""The files of a partition's folder: their names, `partition.metadata`, and the removal of segment files.

Rules: functions that take a file system block, so they run in disk jobs.
Source: Kafka LocalLog, PartitionMetadataFile; KIP-516.
"""

from __future__ import annotations

from functools import lru_cache

from protocol.primitives import DecodeError, uuid_from_text, uuid_to_text
from runtime.disk.filesystem import FileSystem
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, segment_path

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
MOVED_FILE = "moved"
"""Marks a future log that is complete, see `storage.directories.future_logs`."""
SEGMENT_SUFFIXES = (LOG_SUFFIX, OffsetIndex.suffix, TimeIndex.suffix, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)


def partition_folder(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def rename_folder(filesystem: FileSystem, source: str, target: str) -> None:
    """Rename a folder within its log directory, durably."""
    filesystem.rename(source, target)
    filesystem.sync_directory(parent_of(target))


def unmark(filesystem: FileSystem, path: str) -> None:
    """Remove the mark of a complete future log from the folder of a log, or of an incomplete future log. Durable: if it
    reappeared beside the mark of a later move, in another directory, a start could not tell which of the two is the log."""
    filesystem.unlink(f"{path}/{MOVED_FILE}")
    filesystem.sync_directory(path)


def remove_segment_files(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """Remove the files of a segment, the `.log` first: the next start repairs indexes without a log, but not a segment below
    the recovery point without its transaction index."""
    for suffix in SEGMENT_SUFFIXES:
        filesystem.unlink(segment_path(directory, base_offset, suffix))


def set_segments_aside(filesystem: FileSystem, directory: str, base_offsets: list[int]) -> list[str]:
    """Rename the files of segments to `.deleted`, in the order of `remove_segment_files`; return the new paths, which the
    caller removes later."""
    paths: list[str] = []
    for base_offset in base_offsets:
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(directory, base_offset, suffix)
            if filesystem.exists(path):
                filesystem.rename(path, f"{path}.deleted")
                paths.append(f"{path}.deleted")
    if paths:  # they are below the recovery point: recovery would not check a torn one
        filesystem.sync_directory(directory)
    return paths


def parse_partition_metadata(content: bytes) -> bytes:
    """Return the topic id in a `partition.metadata` file. Raises DecodeError."""
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            return uuid_from_text(value.strip())
    raise DecodeError("no topic_id in partition.metadata")


@lru_cache(maxsize=4096)
def shared_topic_id(topic_id: bytes) -> bytes:
    """Return one bytes object for all partitions of a topic."""
    return topic_id


def format_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()
