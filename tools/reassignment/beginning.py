"""Begins to move replicas as a plan says, and finds what throttles moves have left. Pure: steps for a shell.

Source: Kafka ReassignPartitionsCommand; KIP-73, KIP-455.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from client.admin.brokers import cluster as describe_cluster
from client.admin.configs import Resource, ResourceKind, describe
from client.admin.steps import Steps
from protocol.errors import KafkaError
from runtime.command_line.failure import Failure
from runtime.texts import count_text
from tools.balance.layout import Key
from tools.placement import described, partition_rows
from tools.reassignment.moves import TOPIC_SETTINGS, Reassignment, transfers
from tools.reassignment.reassignments import alter
from tools.reassignment.throttles import brokers, throttle_brokers
from tools.replica_plan import PlanError, spread


def check_brokers(wanted: Collection[int]) -> Steps[None]:
    """Raises Failure for a broker that is not there."""
    unknown = set(wanted) - (yield from brokers())
    if unknown:
        raise Failure(f"there is no broker {min(unknown)} (`barnabas brokers list` shows the brokers)")


def check_none_moving(active: Mapping[Key, Reassignment]) -> None:
    """Raises Failure."""
    if active:
        raise Failure(
            f"{count_text(len(active), 'partition', 'is', 'are')} being moved already: wait until `barnabas partitions "
            "reassignments` shows none, or give --additional to move these beside them"
        )


def begin(
    active: Mapping[Key, Reassignment],
    wanted: Mapping[Key, Sequence[int]],
    now: Mapping[Key, Sequence[int]],
    bytes_per_s: int | None,
) -> Steps[None]:
    """Throttle what brokers send each other, if a limit is given, and begin to move. `active` is what is being moved already,
    `now` are the replicas of what is wanted. Raises Failure."""
    if bytes_per_s is not None:
        yield from throttle_brokers(transfers(active, wanted, now), bytes_per_s)
    begun = {key: replicas for key, replicas in wanted.items() if key in active or list(now[key]) != list(replicas)}
    yield from alter(begun)


def spread_plan(
    topics: Collection[str], chosen: Sequence[int], replication_factor: int | None, *, ignores_racks: bool
) -> Steps[tuple[dict[Key, list[int]], dict[Key, list[int]]]]:
    """Return the replicas of topics as they are, and spread over some brokers and their racks. Raises Failure."""
    there = (yield from describe_cluster()).brokers
    racks = {broker.node_id: None if ignores_racks else broker.rack for broker in there}
    unknown = [broker for broker in chosen if broker not in racks]
    if unknown:
        raise Failure(f"there is no broker {unknown[0]} (`barnabas brokers list` shows the brokers)")
    rows = [row for topic in (yield from described(topics)) for row in partition_rows(topic)]
    now = {(row["topic"], row["partition"]): list(row["replicas"]) for row in rows}
    try:
        plan = spread(now, {broker: racks[broker] for broker in chosen}, replication_factor)
    except PlanError as error:
        raise Failure(str(error)) from error
    return now, {key: list(replicas) for key, replicas in plan.items()}


def throttled_topics() -> Steps[set[str]]:
    """Return the topics that have throttled replicas."""
    resources = [Resource(ResourceKind.TOPIC, str(topic.name)) for topic in (yield from described())]
    return {
        resource.name
        for resource, settings in (yield from describe(resources)).items()
        if not isinstance(settings, KafkaError)
        and any(settings[name].value for name in TOPIC_SETTINGS if name in settings)
    }
