"""`barnabas topics`: list, describe, create, alter and delete topics; their offsets.

Source: kafka-topics.sh, kafka-get-offsets.sh.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import click
from confluent_kafka import KafkaError, TopicCollection

from tools import parsing
from tools.cluster import CHANGE_TIMEOUT_S, Cluster, cluster_command
from tools.failures import Failure, told
from tools.group_lag import Key
from tools.output import Output


@click.group("topics", help="Topics of a cluster.")
def command() -> None:
    pass


@command.command("list")
@click.option("--exclude-internal", is_flag=True, help="leave out topics such as __consumer_offsets")
@cluster_command
def list_topics(cluster: Cluster, output: Output, *, exclude_internal: bool) -> None:
    """List the topics."""
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
            "is_internal": topic.is_internal,
        }
        for topic in described(cluster)
        if not (exclude_internal and topic.is_internal)
    ]
    if output.as_json:
        output.document(rows)
        return
    for row in rows:
        click.echo(row["topic"])


@command.command("describe")
@click.argument("topics", nargs=-1)
@click.option("--under-replicated-partitions", is_flag=True, help="only partitions with too few replicas in sync")
@click.option("--unavailable-partitions", is_flag=True, help="only partitions without a leader")
@click.option(
    "--at-min-isr-partitions", is_flag=True, help="only those that take no writes when one replica more is lost"
)
@click.option("--under-min-isr-partitions", is_flag=True, help="only those that take no writes with acks=all")
@cluster_command
def describe_topics(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    under_replicated_partitions: bool,
    unavailable_partitions: bool,
    at_min_isr_partitions: bool,
    under_min_isr_partitions: bool,
) -> None:
    """Describe TOPICS, or all: leader, replicas and replicas in sync of each partition."""
    rows = [
        row
        for topic in described(cluster, topics)
        for row in partition_rows(topic)
        if not (under_replicated_partitions and len(row["isr"]) >= len(row["replicas"]))
        and not (unavailable_partitions and row["leader"] is not None)
    ]
    if at_min_isr_partitions or under_min_isr_partitions:
        least = _min_isr(cluster, {str(row["topic"]) for row in rows})
        rows = [
            row
            for row in rows
            if (under_min_isr_partitions and len(row["isr"]) < least[row["topic"]])
            or (at_min_isr_partitions and len(row["isr"]) == least[row["topic"]])
        ]
    output.table(rows, ("topic", "partition", "leader", "replicas", "isr"))


@command.command("offsets")
@click.argument("topic")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="only of these [all]")
@click.option(
    "--time", metavar="TIME", help="also the first offset since then: 2026-01-31T12:00, or 1h for an hour ago"
)
@click.option("--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_uncommitted",
              help="whether open transactions count to the end [read_uncommitted]")  # fmt: skip
@cluster_command
def show_offsets(
    cluster: Cluster, output: Output, *, topic: str, partitions: str | None, time: str | None, isolation_level: str
) -> int:
    """Show the first offset and the end of each partition of TOPIC. Exit code 1 when one does not answer."""
    from tools.group_lag import offsets_of  # noqa: PLC0415

    keys = partition_keys(cluster, topic, partitions)
    first = offsets_of(cluster, keys, "earliest")
    end = offsets_of(cluster, keys, "latest", is_committed_only=isolation_level == "read_committed")
    since = {}
    columns = ["topic", "partition", "first_offset", "end_offset", "offsets"]
    if time is not None:
        since = offsets_of(cluster, keys, parsing.time_ms(time, "--time", cluster.clock.wall_ms()))
        columns.append("offset_since")
    rows = []
    for key in keys:
        lowest, highest = first[key], end[key]
        count = None if lowest is None or highest is None else highest - lowest
        row = {"topic": topic, "partition": key[1], "first_offset": lowest, "end_offset": highest, "offsets": count}
        rows.append(row if time is None else row | {"offset_since": since[key]})
    output.table(rows, columns)
    return int(any(row["offsets"] is None for row in rows))


@command.command("create")
@click.argument("topics", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(1), help="number of partitions [num.partitions of the brokers]")
@click.option("--replication-factor", type=click.IntRange(1), help="number of replicas [default.replication.factor]")
@click.option("--replica-assignment", metavar="0:1,1:2", help="brokers of each partition, instead of both numbers")
@click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE", help="a setting of the topic; may be repeated"
)
@click.option("--if-not-exists", is_flag=True, help="a topic that is there is no error")
@click.option("--validate-only", is_flag=True, help="check everything, create nothing")
@cluster_command
def create_topics(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
) -> None:
    """Create TOPICS."""
    from confluent_kafka.admin import NewTopic  # noqa: PLC0415

    if replica_assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment says both: --partitions and --replication-factor")
    wanted: dict[str, Any] = {"config": parsing.settings(configs, "--config")}
    if replica_assignment:
        assignments = parsing.assignments(replica_assignment, "--replica-assignment")
        wanted |= {"replica_assignment": assignments, "num_partitions": len(assignments)}
    else:
        wanted |= {"num_partitions": partitions or -1, "replication_factor": replication_factor or -1}
    futures = cluster.admin.create_topics(
        [NewTopic(topic, **wanted) for topic in topics],
        validate_only=validate_only, operation_timeout=CHANGE_TIMEOUT_S, request_timeout=CHANGE_TIMEOUT_S,
    )  # fmt: skip
    _report(
        output,
        cluster.results(futures, CHANGE_TIMEOUT_S),
        "is valid" if validate_only else "created",
        {"TOPIC_ALREADY_EXISTS"} if if_not_exists else set(),
    )


@command.command("delete")
@click.argument("topics", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="a topic that is not there is no error")
@click.option(
    "--pattern", is_flag=True, help="TOPICS are regular expressions for whole names; a dry run without --execute"
)
@click.option("--execute", is_flag=True, help="delete what the patterns name; without it the topics are only shown")
@cluster_command
def delete_topics(
    cluster: Cluster, output: Output, *, topics: tuple[str, ...], if_exists: bool, pattern: bool, execute: bool
) -> None:
    """Delete TOPICS with all of their records."""
    if pattern:
        topics = _matching(cluster, topics)
        if not execute or not topics:
            output.table([{"topic": topic} for topic in topics], ("topic",))
            Output.note("nothing was deleted: --execute deletes these topics" if topics else "no topic has such a name")
            return
    limits = {"operation_timeout": CHANGE_TIMEOUT_S, "request_timeout": CHANGE_TIMEOUT_S}
    results = cluster.results(cluster.admin.delete_topics(list(topics), **limits), CHANGE_TIMEOUT_S)
    _report(output, results, "deleted", {"UNKNOWN_TOPIC_OR_PART"} if if_exists else set())


@command.command("alter")
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1), required=True, help="the new number, which can only grow")
@cluster_command
def alter_topic(cluster: Cluster, output: Output, *, topic: str, partitions: int) -> None:
    """Give TOPIC more partitions. Its settings are changed by `barnabas configs alter`."""
    from confluent_kafka.admin import NewPartitions  # noqa: PLC0415

    limits = {"operation_timeout": CHANGE_TIMEOUT_S, "request_timeout": CHANGE_TIMEOUT_S}
    wanted = [NewPartitions(topic, partitions)]
    results = cluster.results(cluster.admin.create_partitions(wanted, **limits), CHANGE_TIMEOUT_S)
    _report(output, results, f"has {partitions} partitions", set())


def _matching(cluster: Cluster, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics that a pattern names, but for internal ones. Raises click.BadParameter."""
    try:
        wanted = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise click.BadParameter(
            f"{error.pattern!r} is no regular expression: {error.msg}", param_hint="TOPICS"
        ) from None
    return tuple(
        str(topic.name)
        for topic in described(cluster)
        if not topic.is_internal and any(pattern.fullmatch(str(topic.name)) for pattern in wanted)
    )


def _min_isr(cluster: Cluster, topics: set[str]) -> dict[str, int]:
    """Return min.insync.replicas of topics. Raises Failure."""
    from confluent_kafka.admin import ConfigResource  # noqa: PLC0415

    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(topics)]
    found = {}
    for resource, entries in cluster.results(cluster.admin.describe_configs(asked) if asked else {}).items():
        if isinstance(entries, KafkaError):
            raise Failure(f"topic {resource.name}: {told(entries)}")
        found[str(resource.name)] = int(entries["min.insync.replicas"].value)
    return found


def described(cluster: Cluster, topics: tuple[str, ...] = ()) -> list[Any]:
    """Return the descriptions of these topics, or of all, by name. Raises Failure when one is missing."""
    names = sorted(topics or cluster.admin.list_topics(timeout=cluster.settings.timeout_ms / 1000).topics)
    if not names:
        return []
    found = []
    for name, result in cluster.results(cluster.admin.describe_topics(TopicCollection(names))).items():
        if not isinstance(result, KafkaError):
            found.append(result)
        elif topics or result.name() != "UNKNOWN_TOPIC_OR_PART":
            raise Failure(f"topic {name}: {told(result)}")
    return sorted(found, key=lambda topic: str(topic.name))


def partition_keys(cluster: Cluster, topic: str, chosen: str | None, *, needs_leader: bool = False) -> list[Key]:
    """Return the partitions of a topic, or those of them that `chosen` names ("0,2,5-7"). With `needs_leader` each must have
    one. Raises click.BadParameter, Failure."""
    rows = partition_rows(described(cluster, (topic,))[0])
    has = [row["partition"] for row in rows]
    wanted = parsing.partitions(chosen)
    missing = sorted(set(wanted or ()) - set(has))
    if missing:
        raise Failure(f"topic {topic} has no partition {missing[0]}")
    for row in rows if needs_leader else ():
        if row["leader"] is None and (wanted is None or row["partition"] in wanted):
            raise Failure(f"partition {topic}-{row['partition']} has no leader; `barnabas cluster health` tells more")
    return [(topic, index) for index in (has if wanted is None else wanted)]


def partition_rows(topic: Any) -> list[dict[str, Any]]:
    """Return a row for each partition of a description. `leader` is None for a partition without one."""
    return [
        {
            "topic": topic.name,
            "partition": partition.id,
            "leader": None if partition.leader is None or partition.leader.id < 0 else partition.leader.id,
            "replicas": [node.id for node in partition.replicas],
            "isr": [node.id for node in partition.isr],
        }
        for partition in sorted(topic.partitions, key=lambda each: int(each.id))
    ]


def current_replicas(cluster: Cluster, keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the replicas of partitions as they are. Raises Failure for a partition that is missing."""
    wanted = set(keys)
    topics = tuple(sorted({topic for topic, _ in wanted}))
    if not topics:
        return {}
    found = {
        (row["topic"], row["partition"]): list(row["replicas"])
        for each in described(cluster, topics)
        for row in partition_rows(each)
    }
    missing = sorted(wanted - found.keys())
    if missing:
        raise Failure(f"there is no partition {missing[0][0]}-{missing[0][1]}")
    return {key: found[key] for key in wanted}


def _report(output: Output, results: Mapping[str, Any], done: str, accepted: set[str]) -> None:
    """Print what became of each topic. Raises Failure when one was refused with an error that is not accepted."""
    failures = []
    for topic, result in results.items():
        if not isinstance(result, KafkaError):
            output.line({"topic": topic, "result": done}, f"{topic}: {done}")
        elif result.name() in accepted:
            output.line({"topic": topic, "result": result.name()}, f"{topic}: nothing to do ({result.name()})")
        else:
            failures.append(f"{topic}: {told(result)}")
    if failures:
        raise Failure("; ".join(failures))
