"""Topics that must exist before clients are served: `--topic name[:partitions[:replicas]]` and KAFKA_CREATE_TOPICS.

Rules: an existing topic is not changed; a topic that cannot be created fails the start with the reason. In a cluster, the
brokers that its replicas need may not be registered yet: the start waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from config.errors import ConfigError
from metadata.admin.topic_admin import TopicAdmin
from metadata.admin.topic_requests import NewTopic
from protocol.errors import ErrorCode

CREATE_TIMEOUT_MS = 30_000
OTHERS_PAUSE_S = 0.25
OTHERS_ATTEMPTS = 240  # a minute
BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class TopicAtStart:
    name: str
    partitions: int = BROKER_DEFAULT
    replicas: int = BROKER_DEFAULT


def parse_topics(text: str) -> list[TopicAtStart]:
    """Parse `name[:partitions[:replicas]],...`. Raises ConfigError."""
    topics: list[TopicAtStart] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, *counts = item.split(":")
        if not name or len(counts) > 2 or not all(count.isdecimal() and int(count) > 0 for count in counts):
            raise ConfigError(f"{item!r} is not of the form name[:partitions[:replicas]]")
        topics.append(TopicAtStart(name, *map(int, counts)))
    return topics


async def create_topics_at_start(
    topic_admin: TopicAdmin, topics: Iterable[TopicAtStart], *, has_others: bool = False
) -> None:
    """Create topics; return when they can be written to. `has_others`: more brokers may register. Raises ConfigError."""
    wanted = {topic.name: NewTopic(topic.name, topic.partitions, topic.replicas) for topic in topics}
    for attempts_left in reversed(range(OTHERS_ATTEMPTS if has_others else 1)):
        if not wanted:
            return
        for name, created in (await topic_admin.create(wanted.values(), CREATE_TIMEOUT_MS)).items():
            code, message = created.outcome.code, created.outcome.message
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                del wanted[name]
            elif code is not ErrorCode.INVALID_REPLICATION_FACTOR or not attempts_left:
                raise ConfigError(f"topic {name} cannot be created: {message or code.name}")
        if wanted:
            await asyncio.sleep(OTHERS_PAUSE_S)
