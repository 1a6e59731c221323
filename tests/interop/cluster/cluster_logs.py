"""Comparing the logs of replicas on disk: below the end of the shortest, every byte is the same."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.oracle.cluster import Cluster
from tests.oracle.process import wait_until

_BATCH_START = struct.Struct(">qi")
_EPOCH = struct.Struct(">i")


def log_bytes(data: Path, topic: str, partition: int) -> bytes:
    """All whole batches of a replica, in order: segments end at other places on other brokers. Nothing while the replica
    takes a segment away."""
    try:
        joined = b"".join(path.read_bytes() for path in sorted((data / f"{topic}-{partition}").glob("*.log")))
    except FileNotFoundError:
        return b""
    position = 0
    while position + _BATCH_START.size <= len(joined):
        _, size = _BATCH_START.unpack_from(joined, position)
        if size <= 0 or position + 12 + size > len(joined):
            break
        position += 12 + size
    return joined[:position]


def epochs_of_batches(data: Path, topic: str, partition: int) -> set[tuple[int, int]]:
    """Each leader epoch that wrote batches, with the offset of its first. A leader that wrote nothing leaves no trace."""
    log, position = log_bytes(data, topic, partition), 0
    first: dict[int, int] = {}
    while position < len(log):
        offset, size = _BATCH_START.unpack_from(log, position)
        (epoch,) = _EPOCH.unpack_from(log, position + _BATCH_START.size)
        first.setdefault(epoch, offset)
        position += 12 + size
    return set(first.items())


def epochs(data: Path, topic: str, partition: int) -> list[tuple[int, int]]:
    """The leader epochs and their start offsets, from the checkpoint file; none when it is not there."""
    path = data / f"{topic}-{partition}" / "leader-epoch-checkpoint"
    lines = path.read_text().split("\n") if path.exists() else []
    return [(int(epoch), int(offset)) for epoch, _, offset in (line.partition(" ") for line in lines[2:] if line)]


def assert_equal_logs(cluster: Cluster, topic: str, timeout_s: float = 60) -> None:
    """Every replica has the leader's bytes, and knows the epochs of its batches. Nothing may be written meanwhile."""
    for partition, replicas in cluster.partitions(topic).items():
        folders = {one: cluster.brokers[one].data for one in replicas}

        def are_equal(p: int = partition, f: dict[int, Path] = folders) -> bool:
            return len({log_bytes(folder, topic, p) for folder in f.values()}) == 1

        if not wait_until(are_equal, timeout_s, 0.2):
            sizes = {one: len(log_bytes(folder, topic, partition)) for one, folder in folders.items()}
            raise AssertionError(
                f"{topic}-{partition}: logs differ, bytes by broker {sizes}, {_difference(folders, topic, partition)}"
            )
        written = epochs_of_batches(next(iter(folders.values())), topic, partition)
        for one, folder in folders.items():
            # The file follows the log, with the checkpoints at the latest.
            wait_until(lambda f=folder, p=partition, w=written: w <= set(epochs(f, topic, p)), timeout_s, 0.2)  # type: ignore[misc]
            found = epochs(folder, topic, partition)
            assert written <= set(found), (
                f"{topic}-{partition} on {one}: epochs {found}, the batches have {sorted(written)}"
            )


def _difference(folders: dict[int, Path], topic: str, partition: int) -> str:
    """The batch in which the first two replicas begin to differ."""
    logs = [log_bytes(folder, topic, partition) for folder in folders.values()]
    position = 0
    while position + _BATCH_START.size <= min(map(len, logs)):
        offset, size = _BATCH_START.unpack_from(logs[0], position)
        if len({log[position : position + 12 + size] for log in logs}) > 1:
            return f"first at offset {offset}: " + " / ".join(log[position : position + 61].hex() for log in logs)
        position += 12 + size
    return f"equal up to byte {position}"
