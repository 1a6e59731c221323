"""What both kinds of members of a group have in common: settings, phases, and what the application is told. Pure.

Source: KIP-62, KIP-345, KIP-848; Kafka ConsumerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from protocol.topic_partition import TopicPartition

NOT_ASSIGNED: Final = "these partitions are not assigned to this member any more"


class GroupProtocol(Enum):
    """The values are those of the setting `group.protocol`."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Phase(Enum):
    OUT = "out of the group"
    JOINING = "joining"
    ASSIGNING = "assigning partitions"
    SYNCING = "waiting for partitions"
    STABLE = "a member with partitions"
    REVOKING = "letting go of partitions"
    IDLE = "out of the group until the application asks for records"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The defaults are Apache Kafka's. `max_poll_interval_ms` is also how long a rebalance waits for this member.

    Session timeout, heartbeat interval and assignors are those of a classic member: a broker decides them for a member of a
    consumer group. `server_assignor` (None: the broker's choice) and `rack_id` are that one's.
    """

    protocol: GroupProtocol = GroupProtocol.CLASSIC
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[str, ...] = ("range", "roundrobin")
    server_assignor: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All topics that a regular expression in RE2's syntax matches as a whole; the broker matches. For consumer groups
    alone."""

    expression: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """These are new; a member of a consumer group may have others beside them."""

    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Revoked:
    """`is_lost`: somebody else may have them already."""

    partitions: list[TopicPartition]
    is_lost: bool
