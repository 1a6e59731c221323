"""`barnabas topics`: list, describe, create, alter and delete topics; their offsets.

Source: kafka-topics.sh, kafka-get-offsets.sh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from client.admin import configs as config_steps
from client.admin import topics as topic_steps
from client.admin.configs import Resource, ResourceKind, SettingSource
from config.java_patterns.pattern import compile_java
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from protocol.messages.describe_configs import DescribeConfigsResourceResult
from protocol.messages.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from protocol.messages.metadata import MetadataResponseTopic
from protocol.primitives import uuid_to_text
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.texts import count_text
from tools.cluster import CHANGE_TIMEOUT_MS, Cluster, cluster_command
from tools.failures import told
from tools.group_lag import Key, offsets_of, offsets_since
from tools.names_given import some_names
from tools.placement import described, partition_rows
from tools.setting_names import told_of_settings
from tools.setting_units import with_plain_numbers

_MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_SHOWN_TIMES = ("earliest", "latest", "-1", "-2")
"""What kafka-get-offsets.sh takes as a time and is shown in any case."""
_YOUNGEST = ("max-timestamp", "-3")
_PATTERN_SIGNS = re.compile(r"[^a-zA-Z0-9._-]")
"""What no name of a topic has."""


command = Commands("topics", help="Topics of a cluster.")


@command.command("list")
@some_names("topic", is_required=False)
@click.option("--exclude-internal", is_flag=True, help="leave out topics such as __consumer_offsets")
@cluster_command
def list_topics(cluster: Cluster, output: Output, *, topics: tuple[str, ...], exclude_internal: bool) -> None:
    """List the topics, or those of TOPICS, names or regular expressions for whole names."""
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(each.replica_nodes) for each in topic.partitions), default=0),
            "is_internal": topic.is_internal,
            "topic_id": uuid_to_text(topic.topic_id),
        }
        for topic in cluster.run(described(_named(cluster, topics) if topics else ()))
        if not (exclude_internal and topic.is_internal)
    ]
    if output.as_json:
        output.document(rows)
        return
    for row in rows:
        Output.lines(f"{row['topic']}\n")


@command.command("describe")
@some_names("topic", is_required=False)
@click.option("--exclude-internal", is_flag=True, help="leave out topics such as __consumer_offsets")
@click.option("--topic-id", metavar="ID", help="only the topic with this id")
@click.option(
    "--topics-with-overrides",
    is_flag=True,
    help="show only topics that have settings of their own, with their settings",
)
@click.option("--if-exists", is_flag=True, help="a topic that is not there is no error")
@click.option("--under-replicated-partitions", is_flag=True, help="only partitions with too few replicas in sync")
@click.option("--unavailable-partitions", is_flag=True, help="only partitions without a leader")
@click.option(
    "--at-min-isr-partitions",
    is_flag=True,
    help="show only partitions that refuse acks=all when one more replica is lost",
)
@click.option("--under-min-isr-partitions", is_flag=True, help="show only partitions that refuse acks=all")
@cluster_command
def describe_topics(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    exclude_internal: bool,
    topic_id: str | None,
    topics_with_overrides: bool,
    if_exists: bool,
    under_replicated_partitions: bool,
    unavailable_partitions: bool,
    at_min_isr_partitions: bool,
    under_min_isr_partitions: bool,
) -> None:
    """Describe TOPICS, or all: leader, replicas and replicas in sync of each partition. They may be regular expressions for
    whole names."""
    names = _named(cluster, topics, accepts_missing=if_exists) if topics else ()
    found = [
        topic
        for topic in (cluster.run(described(names)) if names or not topics else [])
        if not (exclude_internal and topic.is_internal)
        and (topic_id is None or uuid_to_text(topic.topic_id) == topic_id)
    ]
    if topic_id is not None and not found and not if_exists:
        raise Failure(f"there is no topic with id {topic_id}")
    if topics_with_overrides:
        _show_overrides(cluster, output, found)
        return
    rows = [
        row
        for topic in found
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
@some_names("topic", is_required=False)
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="show only these partitions [all]")
@click.option("--topic-partitions", metavar="A,B:0,B:2-4", help="topics, or partitions of them, instead of both")
@click.option(
    "--exclude-internal", "--exclude-internal-topics", is_flag=True, help="leave out topics such as __consumer_offsets"
)
@click.option("--time", metavar="TIME", help="also the first offset since then: 2026-01-31T12:00, or 1h for an hour ago; or "
              "max-timestamp: that of the youngest record")  # fmt: skip
@click.option("--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_uncommitted",
              help="whether open transactions count to the end [read_uncommitted]")  # fmt: skip
@cluster_command
def show_offsets(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    partitions: str | None,
    topic_partitions: str | None,
    exclude_internal: bool,
    time: str | None,
    isolation_level: str,
) -> int:
    """Show the first offset and the end of each partition of TOPICS, or of all. Exit code 1 when one does not answer."""
    keys = _keys_of_offsets(cluster, topics, partitions, topic_partitions, exclude_internal=exclude_internal)
    first = cluster.run(offsets_of(keys, EARLIEST))
    end = cluster.run(offsets_of(keys, LATEST, is_committed_only=isolation_level == "read_committed"))
    columns = ["topic", "partition", "first_offset", "end_offset", "offsets"]
    others: dict[Key, int | None] = {}
    if time is not None and time not in _SHOWN_TIMES:
        name = "offset_since" if time not in _YOUNGEST else "youngest_offset"
        columns.append(name)
        others = (
            cluster.run(offsets_of(keys, MAX_TIMESTAMP))
            if time in _YOUNGEST
            else cluster.run(offsets_since(keys, parsing.time_ms(time, "--time", cluster.clock.wall_ms())))
        )
    rows = []
    for key in keys:
        lowest, highest = first[key], end[key]
        count = None if lowest is None or highest is None else highest - lowest
        row = {"topic": key[0], "partition": key[1], "first_offset": lowest, "end_offset": highest, "offsets": count}
        rows.append(row | ({columns[-1]: others[key]} if others else {}))
    output.table(rows, columns)
    return int(any(row["offsets"] is None for row in rows))


@command.command("create")
@some_names("topic")
@click.option("--partitions", type=parsing.PARTITIONS, help="number of partitions [num.partitions of the brokers]")
@click.option("--replication-factor", type=parsing.REPLICAS, help="number of replicas [default.replication.factor]")
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
    if replica_assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment says both: --partitions and --replication-factor")
    settings = with_plain_numbers(parsing.settings(configs, "--config"), "--config")
    assignments = parsing.assignments(replica_assignment, "--replica-assignment") if replica_assignment else []
    wanted = {
        topic: CreatableTopic(
            name=topic,
            num_partitions=topic_steps.NOT_ASSIGNED if assignments else partitions or topic_steps.NOT_ASSIGNED,
            replication_factor=topic_steps.NOT_ASSIGNED
            if assignments
            else replication_factor or topic_steps.NOT_ASSIGNED,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                for index, brokers in enumerate(assignments)
            ],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )
        for topic in topics
    }
    _report(
        output,
        cluster.run(topic_steps.create(wanted, CHANGE_TIMEOUT_MS, validate_only=validate_only), CHANGE_TIMEOUT_MS),
        "is valid" if validate_only else "created",
        {ErrorCode.TOPIC_ALREADY_EXISTS} if if_not_exists else set(),
        lambda error: told_of_settings(error, "topics", settings),
    )


@command.command("delete")
@some_names("topic")
@click.option("--if-exists", is_flag=True, help="a topic that is not there is no error")
@click.option("--pattern", is_flag=True, help="TOPICS are regular expressions for whole names")
@execute_option("delete the topics")
@cluster_command
def delete_topics(
    cluster: Cluster, output: Output, *, topics: tuple[str, ...], if_exists: bool, pattern: bool, execute: bool
) -> None:
    """Delete TOPICS with all of their records. A dry run, unless --execute is given."""
    if pattern:
        topics = _matching(cluster, topics)
    if not execute or not topics:
        known = set(_names(cluster)) if if_exists else set(topics)
        there = tuple(topic for topic in topics if topic in known)
        found = cluster.run(described(there)) if there else []
        output.table(
            [{"topic": each.name, "partitions": len(each.partitions)} for each in found], ("topic", "partitions")
        )
        Output.note("nothing was deleted: --execute deletes these topics" if topics else "no topic has such a name")
        return
    results = cluster.run(topic_steps.delete(topics, CHANGE_TIMEOUT_MS), CHANGE_TIMEOUT_MS)
    _report(output, results, "deleted", {_MISSING} if if_exists else set())


@command.command("alter")
@some_names("topic")
@click.option(
    "--partitions", type=parsing.PARTITIONS, required=True, help="the new number of partitions, larger than now"
)
@click.option(
    "--replica-assignment", metavar="0:1,1:2", help="brokers of each partition; those that are there stay as they are"
)
@click.option("--if-exists", is_flag=True, help="a topic that is not there is no error")
@cluster_command
def alter_topics(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    partitions: int,
    replica_assignment: str | None,
    if_exists: bool,
) -> None:
    """Give TOPICS more partitions. Their settings are changed by `barnabas configs alter`."""
    added: dict[str, list[list[int]]] = {}
    for topic in topics:
        if replica_assignment is not None and (topic in _names(cluster) or not if_exists):
            has = len(cluster.run(described((topic,)))[0].partitions)
            assignment = parsing.assignments(replica_assignment, "--replica-assignment")
            if len(assignment) != partitions:
                raise click.UsageError(
                    f"--replica-assignment names {count_text(len(assignment), 'partition')}, --partitions {partitions}"
                )
            added[topic] = assignment[has:]
    counts = dict.fromkeys(topics, partitions)
    results = cluster.run(topic_steps.add_partitions(counts, added, CHANGE_TIMEOUT_MS), CHANGE_TIMEOUT_MS)
    _report(output, results, f"has {count_text(partitions, 'partition')}", {_MISSING} if if_exists else set())


def _keys_of_offsets(
    cluster: Cluster,
    topics: tuple[str, ...],
    partitions: str | None,
    topic_partitions: str | None,
    *,
    exclude_internal: bool,
) -> list[Key]:
    """Return the partitions that the options name. Raises click.UsageError, Failure."""
    if topic_partitions is not None:
        if topics or partitions is not None:
            raise click.UsageError("--topic-partitions says both: topics and partitions")
        named = [text.partition(":") for text in topic_partitions.split(",")]
        keys = [key for topic, _, numbers in named for key in partition_keys(cluster, topic, numbers or None)]
        return sorted(set(keys))
    if len(topics) == 1 and not _PATTERN_SIGNS.search(topics[0]):
        return partition_keys(cluster, topics[0], partitions)
    wanted = parsing.partitions(partitions)
    found = cluster.run(described(_named(cluster, topics) if topics else ()))
    return [
        (row["topic"], row["partition"])
        for topic in found
        if not (exclude_internal and topic.is_internal)
        for row in partition_rows(topic)
        if wanted is None or row["partition"] in wanted
    ]


def _show_overrides(cluster: Cluster, output: Output, topics: list[MetadataResponseTopic]) -> None:
    """Print the topics that have settings of their own. Raises Failure."""
    own = SettingSource.DYNAMIC_TOPIC_CONFIG
    rows = []
    for topic, entries in zip(topics, _settings(cluster, [str(topic.name) for topic in topics]), strict=True):
        settings = {name: entry.value for name, entry in sorted(entries.items()) if entry.config_source == own}
        if settings:
            replicas = max((len(each.replica_nodes) for each in topic.partitions), default=0)
            row = {"topic": topic.name, "partitions": len(topic.partitions), "replication_factor": replicas}
            rows.append(row | {"configs": settings if output.as_json else [f"{k}={v}" for k, v in settings.items()]})
    output.table(rows, ("topic", "partitions", "replication_factor", "configs"))


def _names(cluster: Cluster) -> list[str]:
    return sorted(cluster.run(topic_steps.all_topics()))


def _named(cluster: Cluster, given: tuple[str, ...], *, accepts_missing: bool = False) -> tuple[str, ...]:
    """Return the topics that are named, or that regular expressions among the names match. Raises click.BadParameter."""
    there = _names(cluster)
    found = []
    for name in given:
        if _PATTERN_SIGNS.search(name):
            pattern = _pattern(name)
            found += [topic for topic in there if pattern.fullmatch(topic)]
        elif name in there or not accepts_missing:
            found.append(name)
    return tuple(dict.fromkeys(found))


def _pattern(text: str) -> re.Pattern[str]:
    """Raises click.BadParameter."""
    try:
        return compile_java(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}", param_hint="TOPICS") from None


def _matching(cluster: Cluster, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics that a pattern names, but for internal ones. Raises click.BadParameter."""
    wanted = [_pattern(pattern) for pattern in patterns]
    return tuple(
        str(topic.name)
        for topic in cluster.run(described())
        if not topic.is_internal and any(pattern.fullmatch(str(topic.name)) for pattern in wanted)
    )


def _min_isr(cluster: Cluster, topics: set[str]) -> dict[str, int]:
    """Return min.insync.replicas of topics. Raises Failure."""
    names = sorted(topics)
    settings = _settings(cluster, names)
    return {name: int(each["min.insync.replicas"].value or 1) for name, each in zip(names, settings, strict=True)}


def _settings(cluster: Cluster, topics: list[str]) -> list[dict[str, DescribeConfigsResourceResult]]:
    """Return the settings of each topic. Raises Failure."""
    resources = [Resource(ResourceKind.TOPIC, topic) for topic in topics]
    found = cluster.run(config_steps.describe(resources))
    rows = []
    for resource in resources:
        entries = found[resource]
        if isinstance(entries, KafkaError):
            raise Failure(f"topic {resource.name}: {told(entries)}")
        rows.append(entries)
    return rows


def partition_keys(cluster: Cluster, topic: str, chosen: str | None, *, needs_leader: bool = False) -> list[Key]:
    """Return the partitions of a topic, or those of them that `chosen` names ("0,2,5-7"). With `needs_leader` each must have
    one. Raises click.BadParameter, Failure."""
    rows = partition_rows(cluster.run(described((topic,)))[0])
    has = [row["partition"] for row in rows]
    wanted = parsing.partitions(chosen)
    missing = sorted(set(wanted or ()) - set(has))
    if missing:
        raise Failure(f"topic {topic} has no partition {missing[0]}")
    for row in rows if needs_leader else ():
        if row["leader"] is None and (wanted is None or row["partition"] in wanted):
            raise Failure(f"partition {topic}-{row['partition']} has no leader; `barnabas cluster health` tells more")
    return [(topic, index) for index in (has if wanted is None else wanted)]


def _report(
    output: Output,
    results: Mapping[str, Any],
    done: str,
    accepted: set[ErrorCode],
    tell: Callable[[KafkaError], str] = told,
) -> None:
    """Print what became of each topic. Raises Failure when one was refused with an error that is not accepted."""
    failures = []
    for topic, result in results.items():
        if not isinstance(result, KafkaError):
            output.line({"topic": topic, "result": done}, f"{topic}: {done}")
        elif result.code in accepted:
            output.line({"topic": topic, "result": result.code.name}, f"{topic}: nothing to do ({result.code.name})")
        else:
            failures.append(f"{topic}: {tell(result)}")
    if failures:
        raise Failure("; ".join(failures))
