"""DescribeLogDirs for some partitions or for all, as kafka-python sends it; its own call names every topic, however many there
are. No IO.

Source: KIP-113.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def by_topic(keys: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(keys):
        found.setdefault(topic, []).append(partition)
    return found


def log_dirs_request(keys: Iterable[tuple[str, int]] | None = None) -> Any:
    """Return the request; all partitions with None."""
    from kafka.protocol.admin import DescribeLogDirsRequest  # noqa: PLC0415

    row = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = None if keys is None else [row(topic=topic, partitions=each) for topic, each in by_topic(keys).items()]
    return DescribeLogDirsRequest(topics=topics)
