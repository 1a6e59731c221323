"""What has been collected of a cluster, as the checks read it. Pure.

Rules: what is not known is None, or is absent, and `unseen` says why; nothing is assumed. Times are milliseconds since 1970.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

Key = tuple[str, int]
"""Topic and partition."""

TOPIC_SETTINGS = "settings of topics"
"""What a broker is asked for that it reads from ZooKeeper, where the cluster has one."""


def name_of(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


class Severity(IntEnum):
    """Errors refuse or delay clients, warnings will; notices are no problem yet."""

    ERROR = 0
    WARNING = 1
    NOTICE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class Condition:
    """What a broker of this project tells the start of, by the names of its page /health."""

    NO_LEADER = "partition_without_leader"
    REPLICAS_BEHIND = "replicas_behind"
    BROKER_GONE = "broker_gone"
    DIRECTORY_OFFLINE = "log_directory_offline"
    DISK_FULL = "disk_full"
    SHARE_GAVE_UP = "share_group_gave_up_records"
    SHARE_LOCKS_RAN_OUT = "share_group_locks_ran_out"
    """Of the last ten minutes; the name is that of the group, a space, and the partition."""


@dataclass(frozen=True, slots=True)
class Since:
    """When something began: `at_ms` is None when nothing tells it. `note` says what the time is of, or why there is none."""

    at_ms: int | None = None
    note: str = "the brokers do not tell; seen now"


@dataclass(frozen=True, slots=True)
class Shared:
    """What is told of several problems that have one cause, instead of the cause and the next step of each."""

    cause: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Problem:
    """`subject` is what it is about, a kind and a name, `next_step` the command that helps or tells more. Problems of one check
    with the same `shared` have one cause; None where each stands for itself."""

    severity: Severity
    subject: str
    cause: str
    next_step: str
    since: Since = Since()
    shared: Shared | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """`leader` is None for a partition without one; `offline` are replicas that their brokers cannot serve."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return name_of(self.key)


@dataclass(frozen=True, slots=True)
class LogDirectoryView:
    """Sizes in bytes; None where the broker does not tell them. `sizes` is by partition."""

    path: str
    is_offline: bool = False
    total_bytes: int | None = None
    usable_bytes: int | None = None
    sizes: Mapping[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statement:
    """What one broker says of the cluster. `leaders` may be empty: then it was not asked."""

    controller: int | None
    brokers: frozenset[int]
    leaders: Mapping[Key, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when a certificate is valid, in milliseconds since 1970."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A registered broker. `round_trip_ms` is the fastest of a few answers, None when none came within `waited_ms`.
    `statements` are one behind the other. `settings` are those the checks read, `shared_settings`
    the names of those whose values are set for all brokers. `certificate` is that of its listener,
    None without TLS."""

    broker_id: int
    address: str
    round_trip_ms: float | None
    waited_ms: int = 0
    error: str | None = None
    statements: tuple[Statement, ...] = ()
    directories: tuple[LogDirectoryView, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    shared_settings: frozenset[str] = frozenset()
    certificate: Validity | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """A broker answers, but one question it did not answer within `waited_ms`; `why` is what its connection said. `asked_ms` is
    monotonic."""

    broker_id: int
    what: str
    waited_ms: int
    why: str
    asked_ms: int = 0


@dataclass(frozen=True, slots=True)
class LagView:
    """A partition that a group has committed; `start` and `end` are those of its log. `stood_ms` is how long its offset was
    seen to stand, None when it moved or was not observed; `oldest_unread_ms` the timestamp of the first record that
    is not read. Of a share group, `committed` is where its share partition begins, and `share_lag` what it is not done with."""

    topic: str
    partition: int
    committed: int
    end: int
    is_assigned: bool
    start: int = 0
    stood_ms: int | None = None
    oldest_unread_ms: int | None = None
    grown: int = 0
    share_lag: int | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    @property
    def lag(self) -> int:
        """As kafka-consumer-groups.sh counts it, also records that were deleted meanwhile; 0 behind the end."""
        return max(self.end - self.committed if self.share_lag is None else self.share_lag, 0)

    @property
    def place(self) -> int:
        """Where the group would read next: what is before the start of the log is gone."""
        return max(self.committed, self.start)

    @property
    def unread(self) -> int:
        """What is left of the lag."""
        left = max(self.end - self.place, 0)
        return left if self.share_lag is None else min(self.lag, left)

    @property
    def most_done(self) -> int:
        """The number of records up to the end that a share group was done with at most, counted from offset 0: its lag was told
        before the end."""
        return self.end - self.lag


@dataclass(frozen=True, slots=True)
class GroupView:
    """`rebalanced_ms` is how long it was seen in a rebalance without a break. `is_simple`: it only commits; its consumers
    choose partitions themselves and are no members. `is_share`: its members share partitions and acknowledge single records."""

    group: str
    state: str
    members: int
    coordinator: int
    lags: tuple[LagView, ...] = ()
    rebalanced_ms: int | None = None
    is_simple: bool = False
    is_share: bool = False

    def with_ends(self, ends: Mapping[Key, int]) -> GroupView:
        """Return the group with the ends of its partitions; partitions whose end is unknown are left out."""
        return replace(self, lags=tuple(replace(lag, end=ends[lag.key]) for lag in self.lags if lag.key in ends))

    def with_starts(self, starts: Mapping[Key, int]) -> GroupView:
        """Return the group with the starts of its partitions, where they are known."""
        return replace(self, lags=tuple(replace(lag, start=starts.get(lag.key, lag.start)) for lag in self.lags))


@dataclass(frozen=True, slots=True)
class TransactionView:
    """An open transaction of one partition. The fields from `transactional_id` on are what its coordinator says; `is_known` is
    False when every coordinator has answered and none has it open, and None when not all have answered."""

    key: Key
    start_offset: int
    producer_id: int
    last_written_ms: int | None
    is_known: bool | None
    transactional_id: str | None = None
    state: str | None = None
    started_ms: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReassignmentView:
    """`stood_ms` is how long the replicas that are added did not grow; None: they grew, or were not observed."""

    key: Key
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    stood_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`controller` is None while there is none. `absent` are topics that were asked for by name and do not exist.
    `topic_settings` has the settings that the checks read. `began` has what brokers tell of starts, by condition and name.
    `unseen` are the parts that were not seen, with the reason."""

    brokers: Mapping[int, BrokerView]
    controller: int | None
    partitions: tuple[PartitionView, ...]
    now_ms: int = 0
    cluster_id: str | None = None
    has_controllers: bool = False
    """The cluster has a quorum of controllers (KRaft), whose brokers name any broker as the controller."""
    absent: frozenset[str] = frozenset()
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stalls: tuple[Stall, ...] = ()
    groups: tuple[GroupView, ...] = ()
    transactions: tuple[TransactionView, ...] = ()
    reassignments: tuple[ReassignmentView, ...] | None = None
    began: Mapping[tuple[str, str], Since] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Those that named the cluster, which a shown command needs as well."""

    def command(self, *words: str) -> str:
        """Return a command of `barnabas` for this cluster, as a shell takes it: names of groups may hold anything."""
        return shlex.join(("barnabas", *words, *self.options))

    def since(self, condition: str, name: str) -> Since:
        return self.began.get((condition, name), Since())
