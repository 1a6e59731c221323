"""The page /ready: whether clients are served, and what they are refused although they are.

Rules: 200 as soon as clients are served, also while a disk is full: the broker serves readers, groups and its other
directories, and neither a restart nor other traffic makes room. What it refuses then is a line of the page.
Source: none in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.free_space import Room

if TYPE_CHECKING:
    from broker.server import Broker


def readiness(broker: Broker) -> tuple[str, str]:
    """Return the status and the text of the page."""
    if not broker.is_ready:
        return "503 Service Unavailable", f"not ready: {broker.phase}\n"
    lines = ["ready"]
    for directory, space in broker.logs.space.by_directory():
        if space.room is not Room.OPEN:
            lines.append(
                f"writes refused: {directory} has {space.free_bytes} bytes free, "
                f"barnabas.disk.free.min.bytes is {space.floor_bytes}"
            )
    return "200 OK", "\n".join([*lines, ""])
