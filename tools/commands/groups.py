"""`barnabas groups`: list, describe with lag, reset offsets, delete.

Source: kafka-consumer-groups.sh.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from typing import Any

import click
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from tools import parsing
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import Failure, told, with_hint
from tools.group_lag import Key, committed_offsets, group_lag, offsets_of
from tools.output import Output

UNREADABLE = "_DESTROY"
"""The client library's error for an answer that it cannot read."""
_LAG_COLUMNS = ("topic", "partition", "current_offset", "log_end_offset", "lag", "member_id", "client_id", "host")


@click.group("groups", help="Consumer groups.")
def command() -> None:
    pass


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="only groups in this state; may be repeated")
@cluster_command
def list_groups(cluster: Cluster, output: Output, *, states: tuple[str, ...]) -> None:
    """List the groups of all brokers, with their states."""
    found = cluster.result(cluster.admin.list_consumer_groups())
    if found.errors:
        Output.note(
            f"barnabas: not all brokers have answered: {'; '.join(told(each.args[0]) for each in found.errors)}"
        )
    wanted = {state.lower() for state in states}
    rows = [
        {"group": group.group_id, "state": _state(group), "is_simple": group.is_simple_consumer_group}
        for group in sorted(found.valid, key=lambda group: str(group.group_id))
        if not wanted or _state(group).lower() in wanted
    ]
    output.table(rows, ("group", "state"))
    if found.errors:
        raise Failure("the list is incomplete")


@command.command("describe")
@click.argument("group")
@click.option("--members", is_flag=True, help="members instead of partitions")
@cluster_command
def describe_group(cluster: Cluster, output: Output, *, group: str, members: bool) -> None:
    """Show the state of GROUP and how far it is behind in each partition."""
    description = _description(cluster, group)
    lags = group_lag(cluster, description)
    if not lags and _state(description) == "Dead":
        raise Failure(f"there is no group {group} (`barnabas groups list` shows the groups)")
    known = [lag.lag for lag in lags if lag.lag is not None]
    document = {
        "group": group,
        "state": _state(description),
        "coordinator": None if description.coordinator is None else description.coordinator.id,
        "assignor": description.partition_assignor,
        "total_lag": sum(known) if len(known) == len(lags) else None,
        "members": [_member(member) for member in description.members],
        "partitions": [lag.row() for lag in lags],
    }
    if output.as_json:
        output.document(document)
        return
    Output.note(
        f"group {group}: {document['state']}, {len(document['members'])} members, coordinator "
        f"{document['coordinator']}, lag {'unknown' if document['total_lag'] is None else document['total_lag']}"
    )
    if members:
        output.table(document["members"], ("member_id", "client_id", "host", "partitions"))
    else:
        output.table(document["partitions"], _LAG_COLUMNS)


@command.command("delete")
@click.argument("groups", nargs=-1, required=True)
@cluster_command
def delete_groups(cluster: Cluster, output: Output, *, groups: tuple[str, ...]) -> None:
    """Delete GROUPS, which must have no members, with their offsets."""
    failures = []
    for group, result in cluster.results(cluster.admin.delete_consumer_groups(list(groups))).items():
        if isinstance(result, KafkaError):
            failures.append(f"{group}: {told(result)}")
        else:
            output.line({"group": group, "result": "deleted"}, f"{group}: deleted")
    if failures:
        raise Failure("; ".join(failures))


@command.command("reset")
@click.argument("group")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:0,1-3]", help="a topic, or some of its partitions")
@click.option("--all-topics", is_flag=True, help="every partition that the group has committed")
@click.option("--to-earliest", is_flag=True, help="to the first record")
@click.option("--to-latest", is_flag=True, help="to the end")
@click.option("--to-current", is_flag=True, help="to what is committed; with --export it keeps that")
@click.option("--to-offset", type=click.IntRange(0), help="to this offset, or the nearest there is")
@click.option("--shift-by", type=int, help="so many records forward, or back when negative")
@click.option(
    "--to-datetime", metavar="TIME", help="to the first record since then: 2026-01-31T12:00, or 1h for an hour ago"
)
@click.option("--by-duration", metavar="DURATION", help="to the first record within it: PT1H, 90s")
@click.option("--from-file", metavar="FILE", help="to the offsets of a CSV file: topic,partition,offset")
@click.option("--export", is_flag=True, help="print the new offsets as such a CSV file")
@click.option("--execute", is_flag=True, help="commit the offsets; without it they are only shown")
@cluster_command
def reset_offsets(
    cluster: Cluster,
    output: Output,
    *,
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    export: bool,
    execute: bool,
    from_file: str | None,
    **targets: Any,
) -> None:
    """Set the offsets of GROUP, which must have no members. A dry run, unless --execute is given."""
    target = _target(cluster, from_file, targets)
    state = _state(_description(cluster, group))
    if state not in ("Empty", "Dead"):
        raise Failure(
            f"group {group} is {state}: stop its consumers first; `barnabas groups describe {group}` shows them"
        )
    commits = committed_offsets(cluster, group)
    keys = sorted(target.offsets) if target.offsets is not None else _keys(cluster, topics, commits, is_all=all_topics)
    new = _new_offsets(cluster, keys, commits, target)
    rows = [
        {
            "group": group,
            "topic": key[0],
            "partition": key[1],
            "current_offset": commits.get(key),
            "new_offset": new[key],
        }
        for key in keys
    ]
    if execute:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*key, new[key]) for key in keys])
        cluster.result(cluster.admin.alter_consumer_group_offsets([asked])[group])
    if export:
        csv.writer(sys.stdout, lineterminator="\n").writerows((*key, new[key]) for key in keys)
    else:
        output.table(rows, ("topic", "partition", "current_offset", "new_offset"))
    if not execute:
        Output.note("nothing was changed: --execute commits these offsets")


@command.command("delete-offsets")
@click.argument("group")
@click.option("--topic", "topics", multiple=True, required=True, metavar="NAME[:0,1-3]",
              help="a topic, or some of its partitions; may be repeated")  # fmt: skip
@click.option("--execute", is_flag=True, help="delete; without it the offsets are only shown")
@cluster_command
def delete_offsets(cluster: Cluster, output: Output, *, group: str, topics: tuple[str, ...], execute: bool) -> None:
    """Make GROUP forget what it has committed for topics that no member reads. A dry run, unless --execute is given."""
    commits = committed_offsets(cluster, group)
    keys = [key for key in _keys(cluster, topics, commits, is_all=False) if key in commits]
    if not keys:
        raise Failure(f"group {group} has committed nothing for {', '.join(topics)}")
    if execute:
        _delete(cluster, group, keys)
    rows = [{"topic": key[0], "partition": key[1], "current_offset": commits[key]} for key in keys]
    output.table(rows, ("topic", "partition", "current_offset"))
    if not execute:
        Output.note("nothing was deleted: --execute deletes these offsets")


def _delete(cluster: Cluster, group: str, keys: list[Key]) -> None:
    """Raises Failure."""
    from kafka.structs import TopicPartition as OtherTopicPartition  # noqa: PLC0415

    found = cluster.other_admin.delete_group_offsets(group, [OtherTopicPartition(*key) for key in keys])
    failures = [
        f"{place.topic}-{place.partition}: {with_hint(str(error.message), None)}"
        for place, error in found.items()
        if error is not None and error.errno
    ]
    if failures:
        raise Failure("; ".join(failures))


@dataclass(frozen=True, slots=True)
class _Target:
    """`spec` is "earliest", "latest" or a time; else an offset, a shift, or the offsets of a file."""

    spec: str | int | None = None
    offset: int | None = None
    shift: int | None = None
    offsets: dict[Key, int] | None = None
    is_current: bool = False


def _target(cluster: Cluster, from_file: str | None, targets: dict[str, Any]) -> _Target:
    """Return where offsets are set to. Raises click.UsageError unless it is said once."""
    given = [name for name, value in targets.items() if value is not None and value is not False]
    if len(given) + (from_file is not None) != 1:
        raise click.UsageError(
            "say once where to: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
            "--by-duration or --from-file"
        )
    if from_file is not None:
        return _Target(offsets=_offsets_of_file(from_file))
    name, value = given[0], targets[given[0]]
    now_ms = cluster.clock.wall_ms()
    if name == "to_current":
        return _Target(is_current=True)
    if name == "to_offset":
        return _Target(offset=value)
    if name == "shift_by":
        return _Target(shift=value)
    if name == "to_datetime":
        return _Target(spec=parsing.time_ms(value, "--to-datetime", now_ms))
    if name == "by_duration":
        return _Target(spec=now_ms - parsing.duration_ms(value, "--by-duration"))
    return _Target(spec=name.removeprefix("to_"))


def _new_offsets(cluster: Cluster, keys: list[Key], commits: dict[Key, int], target: _Target) -> dict[Key, int]:
    """Return the new offset of each partition, within what it has. Raises Failure."""
    first, end = offsets_of(cluster, keys, "earliest"), offsets_of(cluster, keys, "latest")
    at_time = offsets_of(cluster, keys, target.spec) if isinstance(target.spec, int) else {}
    new = {}
    for key in keys:
        lowest, highest = first[key], end[key]
        if lowest is None or highest is None:
            raise Failure(f"partition {key[0]}-{key[1]} does not answer; `barnabas cluster health` tells more")
        if target.shift is not None:
            if key not in commits:
                raise Failure(f"the group has no offset of {key[0]}-{key[1]} that could be shifted")
            wanted = commits[key] + target.shift
        elif target.is_current:
            wanted = commits.get(key, highest)
        elif target.offsets is not None:
            wanted = target.offsets[key]
        elif target.offset is not None:
            wanted = target.offset
        elif isinstance(target.spec, int):
            found = at_time[key]
            wanted = highest if found is None else found  # no record is as young
        else:
            wanted = lowest if target.spec == "earliest" else highest
        new[key] = min(max(wanted, lowest), highest)
    return new


def _keys(cluster: Cluster, topics: tuple[str, ...], commits: dict[Key, int], *, is_all: bool) -> list[Key]:
    """Return the partitions that the options name. Raises click.UsageError, Failure."""
    if is_all == bool(topics):
        raise click.UsageError("name --topic, or --all-topics")
    if is_all:
        return sorted(commits)
    keys: list[Key] = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        keys += partition_keys(cluster, topic, numbers or None)
    return sorted(set(keys))


def _offsets_of_file(path: str) -> dict[Key, int]:
    """Return the offsets of a CSV file; a first column with the group, as kafka-consumer-groups.sh exports it, is accepted.
    Raises Failure."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        return {(row[-3].strip(), int(row[-2])): int(row[-1]) for row in rows}
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, IndexError):
        raise Failure(f"{path} does not have lines of the form topic,partition,offset") from None


def _description(cluster: Cluster, group: str) -> Any:
    """Raises Failure for a group whose members were assigned what is not in the form of consumers, KafkaException."""
    try:
        return cluster.result(cluster.admin.describe_consumer_groups([group])[group])
    except KafkaException as error:
        if error.args[0].name() != UNREADABLE:
            raise
        raise Failure(
            f"what the members of group {group} were assigned cannot be read: it is not in the form of consumers "
            f"(`barnabas groups list` shows its state)"
        ) from error


def _state(group: Any) -> str:
    """Return the state of a group in Kafka's words: "Stable", "PreparingRebalance"."""
    name = getattr(group.state, "name", str(group.state)).replace("REBALANCING", "REBALANCE")
    return "".join(part.capitalize() for part in name.split("_"))


def _member(member: Any) -> dict[str, Any]:
    assigned = member.assignment.topic_partitions if member.assignment is not None else []
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": sorted(f"{each.topic}-{each.partition}" for each in assigned),
    }
