"""What hinders writers, readers and members of groups, in words. Pure.

Rules: only what keeps a request from being answered counts: a disk that is almost full takes records still.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from protocol.errors import ErrorCode
from runtime.texts import count_text
from tools.health.broker_checks import directories_offline, disks_full
from tools.health.view import BrokerView, ClusterView, PartitionView, Severity

SHOWN = 3
"""Of many partitions so many are named."""
_NO_COORDINATOR = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_STABLE = "Stable"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True)
class TopicState:
    """What the cluster says of a topic. `brokers` are those that hold it, as far as they answer, with their disks. `min_isr` is
    None where it is not told."""

    topic: str
    error_code: int = 0
    partitions: tuple[PartitionView, ...] = ()
    min_isr: int | None = None
    brokers: Mapping[int, BrokerView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupState:
    """What the cluster says of a group. `coordinator` is None where no broker names one. `offsets` is the topic in which it is
    stored, while that may hinder it."""

    group: str
    coordinator: int | None = None
    error_code: int = 0
    state: str = ""
    members: int = 0
    offsets: TopicState | None = None


def missing(state: TopicState) -> str | None:
    return f"topic {state.topic} does not exist" if state.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None


def leaderless(state: TopicState, wanted: Collection[int] | None = None) -> str | None:
    """Of the partitions that are wanted, or of all."""
    names = [
        each.name for each in state.partitions if each.leader is None and (wanted is None or each.partition in wanted)
    ]
    return f"{_partitions(names)} no leader" if names else None


def write_hindrance(state: TopicState, *, needs_all: bool) -> str | None:
    """Return why brokers do not acknowledge records of the topic; with `needs_all` all replicas in sync must have them."""
    return missing(state) or leaderless(state) or (_few_in_sync(state) if needs_all else None) or _disk(state)


def read_hindrance(state: TopicState, wanted: Collection[int] | None = None) -> str | None:
    """Return why brokers give no records of these partitions."""
    return missing(state) or leaderless(state, wanted) or _offline(_view(state))


def group_hindrance(state: GroupState) -> str | None:
    """Return why a member of the group gets nothing to read."""
    if state.coordinator is None:
        why = None if state.offsets is None else missing(state.offsets) or leaderless(state.offsets)
        return f"group {state.group} has no coordinator{f': {why}' if why else ''}"
    if state.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return f"broker {state.coordinator}, the coordinator of group {state.group}, is loading it"
    if state.error_code in _NO_COORDINATOR:
        return f"the coordinator of group {state.group} moves to another broker"
    members = count_text(state.members, "member")
    if state.state in REBALANCING:
        full = None if state.offsets is None else _disk(state.offsets)
        return f"group {state.group} is rebalancing: it waits for {members}{f'; {full}' if full else ''}"
    if state.state == _STABLE:
        return f"group {state.group} has {members}, and no partition for this one"
    return None


def _few_in_sync(state: TopicState) -> str | None:
    if state.min_isr is None:
        return None
    few = [each for each in state.partitions if len(each.isr) < min(state.min_isr, len(each.replicas))]
    if not few:
        return None
    return (
        f"{_partitions([each.name for each in few])} fewer replicas in sync ({min(len(each.isr) for each in few)}) than "
        f"min.insync.replicas={state.min_isr}"
    )


def _disk(state: TopicState) -> str | None:
    view = _view(state)
    full = next((each for each in disks_full(view) if each.severity is Severity.ERROR), None)
    return _offline(view) or (None if full is None else f"{full.subject}: {full.cause}")


def _offline(view: ClusterView) -> str | None:
    return next((f"{each.subject}: {each.cause}" for each in directories_offline(view)), None)


def _view(state: TopicState) -> ClusterView:
    return ClusterView(brokers=state.brokers, controller=None, partitions=state.partitions)


def _partitions(names: Iterable[str]) -> str:
    first, *others = names
    if not others:
        return f"partition {first} has"
    shown = ", ".join((first, *others[: SHOWN - 1]))
    return f"partitions {shown}{' ...' if len(others) >= SHOWN else ''} have"
