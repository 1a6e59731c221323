"""Topics that requests name by their ids (KIP-516).

Rules: pure. Below the handlers everything goes by names; an id is translated once, when its request begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar


class IdentifiedTopic(Protocol):
    """A topic of a request or response in a version with ids, where `name` is not on the wire."""

    topic_id: bytes
    name: str


Topic = TypeVar("Topic", bound=IdentifiedTopic)


def named(topics: Sequence[Topic], names_by_id: Mapping[bytes, str]) -> tuple[list[Topic], list[Topic]]:
    """Name the topics of a request. Return those that there are, and those whose ids no topic has."""
    known: list[Topic] = []
    unknown: list[Topic] = []
    for topic in topics:
        name = names_by_id.get(topic.topic_id)
        if name is None:
            unknown.append(topic)
        else:
            topic.name = name
            known.append(topic)
    return known, unknown
