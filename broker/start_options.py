"""The options of `barnabas start` besides settings."""

from __future__ import annotations

from dataclasses import dataclass

from broker.cluster.topics_at_start import TopicAtStart

VERSION = "0.1.0"
NO_DESCRIPTOR = -1


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of one start. The broker writes one line of JSON to `ready_fd` when clients are served. `owner_fd` is a
    socket over which a test injects faults (`broker.owner_socket`)."""

    topics: tuple[TopicAtStart, ...] = ()
    show_banner: bool = True
    ready_fd: int = NO_DESCRIPTOR
    owner_fd: int = NO_DESCRIPTOR
