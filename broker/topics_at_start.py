"""Topics that must exist before the first client comes: `--topic name[:partitions[:replicas]]` and KAFKA_CREATE_TOPICS.

Rules: a topic that is there already stays as it is; one that cannot be made stops the start with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.errors import ConfigError
from controller.admin import NewTopic
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from controller.host import Controller

CREATE_TIMEOUT_MS = 30_000
BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class TopicAtStart:
    name: str
    partitions: int = BROKER_DEFAULT
    replicas: int = BROKER_DEFAULT


def parse_topics(text: str) -> list[TopicAtStart]:
    """`name[:partitions[:replicas]],...`. Raises ConfigError."""
    topics: list[TopicAtStart] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, *counts = item.split(":")
        if not name or len(counts) > 2 or not all(count.isdecimal() and int(count) > 0 for count in counts):
            raise ConfigError(f"{item!r} is not of the form name[:partitions[:replicas]]")
        topics.append(TopicAtStart(name, *map(int, counts)))
    return topics


async def create_topics_at_start(controller: Controller, topics: Iterable[TopicAtStart]) -> None:
    """Return when the topics can be written to. Raises ConfigError."""
    wanted = [NewTopic(topic.name, topic.partitions, topic.replicas) for topic in topics]
    if not wanted:
        return
    for name, created in (await controller.topics.create(wanted, CREATE_TIMEOUT_MS)).items():
        if created.outcome.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ConfigError(f"topic {name} cannot be created: {created.outcome.message or created.outcome.code.name}")
