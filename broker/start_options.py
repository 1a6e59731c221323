"""The options of `barnabas start` besides settings."""

from __future__ import annotations

from dataclasses import dataclass

from broker.cluster.topics_at_start import TopicAtStart

VERSION = "0.1.0"
NO_DESCRIPTOR = -1


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of one start. The broker writes one line of JSON to `ready_fd` when clients are served. When `lifeline_fd`
    closes, the broker deletes the folder `discard` and ends. `faults_fd` is a private socket of tests
    (`broker.owner_socket`)."""

    topics: tuple[TopicAtStart, ...] = ()
    show_banner: bool = True
    ready_fd: int = NO_DESCRIPTOR
    lifeline_fd: int = NO_DESCRIPTOR
    discard: str | None = None
    faults_fd: int = NO_DESCRIPTOR
