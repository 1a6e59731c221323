"""`barnabas consume TOPIC`: prints records, one a line.

Rules: without a group nothing is committed and every partition is read, also one that the topic gets meanwhile; with one,
exactly what was printed is committed. To the end of what was asked: a partition that cannot be read ends the command with its
error.
Source: kafka-console-consumer.sh.
"""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer

from client.admin.brokers import checked
from client.admin.groups import describe as describe_groups
from runtime.command_line import parsing
from runtime.command_line.failure import Failure
from runtime.command_line.output import Output, prints_on_terminal
from runtime.texts import count_text
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.group_lag import Key, offsets_since
from tools.names_given import one_name
from tools.placement import described, partition_rows
from tools.records.format_option import format_options
from tools.records.last_records import last_plan
from tools.records.new_partitions import NewPartitions
from tools.records.printing import Printing, RecordForm
from tools.records.reading import SETTINGS, Reading, ReadPlan, earlier_ends, tell_gaps
from tools.records.record_filter import RecordFilter
from tools.records.serialization import key_bytes, serialization_options

_STARTS = ("from_beginning", "from_time", "offset", "last")
_TOO_LONG = len(str(parsing.INT64_MAX))
_ENDS = ("until_end", "until_offset", "until_time")


@click.command("consume")
@one_name("topic")
@click.option("--from-beginning", is_flag=True, help="start at the first record instead of the end")
@click.option(
    "--from-time", metavar="TIME", help="start at the first record since: 2026-01-31T12:00, or 1h for an hour ago"
)
@click.option("--offset", metavar="N", help="start at this offset in each partition; or earliest, latest")
@click.option("--last", type=click.IntRange(1), metavar="N", help="print the last N records of each partition, and end")
@click.option(
    "--until-offset", type=parsing.OFFSET, metavar="N", help="end before this offset, or at what is there now"
)
@click.option("--until-time", metavar="TIME", help="end before the first record since then, or at what is there now")
@click.option("--until-end", is_flag=True, help="end at the records that are there now")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="read only these")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="end after N records")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="N", help="end when no record has come for so long")
@click.option("--group", metavar="G", help="read as a member of this group, and commit")
@click.option("--key", help="only records with this key")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="only records with this header")
@click.option("--value-contains", metavar="TEXT", help="only records whose value contains this")
@format_options("%v")
@click.option("--property", "printed", multiple=True, metavar="NAME=VALUE", help="as of kafka-console-consumer.sh, instead of "
              "--format: print.key=true, key.separator=:, ...; may be repeated")  # fmt: skip
@serialization_options("deserializer")
@click.option(
    "--skip-message-on-error", "skips_errors", is_flag=True, help="skip records that the deserializers refuse"
)
@click.option("--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_committed",
              help="[read_committed]")  # fmt: skip
@click.option("--consumer-property", "properties", multiple=True, metavar="NAME=VALUE", help="a setting of librdkafka")
@cluster_command
def command(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    max_messages: int | None,
    timeout_ms: int | None,
    group: str | None,
    key: str | None,
    headers: tuple[str, ...],
    value_contains: str | None,
    isolation_level: str,
    properties: tuple[str, ...],
    **others: Any,
) -> None:
    """Print the records of TOPIC, from its end on unless another start is named."""
    form = RecordForm.of(as_json=output.as_json, **{name: others.pop(name) for name in RecordForm.OPTIONS})
    start = _start(others)
    wanted = RecordFilter.of(key_bytes(key, form.key), headers, value_contains)
    if group is not None and any(_is_given(start[name]) for name in (*_STARTS[1:], *_ENDS, "partitions")):
        raise click.UsageError("with --group, the group says where to start and which partitions to read")
    keys = partition_keys(cluster, topic, start["partitions"])
    if group is not None:
        checked(cluster.run(describe_groups([group])))  # says that it has no coordinator
    settings = {
        "group.id": group or "barnabas-consume",
        **SETTINGS,
        **({"auto.offset.reset": "earliest" if start["from_beginning"] else "latest"} if group is not None else {}),
        "isolation.level": isolation_level,
    } | parsing.settings(properties, "--consumer-property")
    consumer = cluster.consumer(settings)
    printing = Printing(consumer, form, wanted, output, max_messages, commits=group is not None)
    try:
        moved = cluster.waits.moved
        if group is not None:
            plan, reading, added = None, Reading(consumer, topic, None, moved), None
            consumer.subscribe([topic], on_assign=reading.on_assigned, on_revoke=reading.on_revoked)
            watched = cluster.waits.joining(group, topic, reading.left)
        else:
            plan = _plan(cluster, consumer, topic, keys, start, is_committed_only=isolation_level == "read_committed")
            reading = Reading(consumer, topic, plan, moved)
            watched = cluster.waits.reading(topic, reading.left)
            added = (
                None
                if plan.is_bounded or start["partitions"] is not None
                else NewPartitions.of(cluster, topic, len(keys))
            )
        leaderless = _leaderless(cluster, keys) if group is None and (plan is None or not plan.is_bounded) else []
        if leaderless:
            Output.note(f"without leader, and not read until there is one: {', '.join(leaderless)}")
        with watched:
            printing.run(reading, timeout_ms, cluster.clock.monotonic_ms, added)
        tell_gaps(topic, reading.deleted, plan.withheld if plan is not None else {}, printing.unreadable)
    finally:
        consumer.close()
    if timeout_ms is not None and leaderless and _leaderless(cluster, keys):
        raise Failure(f"not everything was read: without leader are {', '.join(leaderless)}")
    if prints_on_terminal():
        Output.note(count_text(printing.printed, "record"))


def _leaderless(cluster: Cluster, keys: list[Key]) -> list[str]:
    """Return the partitions among these that have no leader."""
    rows = [
        row for topic in cluster.run(described(tuple({topic for topic, _ in keys}))) for row in partition_rows(topic)
    ]
    return [
        f"{row['topic']}-{row['partition']}"
        for row in rows
        if row["leader"] is None and (row["topic"], row["partition"]) in keys
    ]


def _start(options: dict[str, Any]) -> dict[str, Any]:
    """Return where reading starts and ends, --offset as a number if it is one. Raises click.UsageError, click.BadParameter."""
    start = dict(options)
    named = [name for name in _STARTS if _is_given(start[name])]
    if len(named) > 1:
        raise click.UsageError("name one start: --from-beginning, --from-time, --offset or --last")
    text = start["offset"]
    if text is not None:
        found = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(text.lower())
        if found is None and not (text.isascii() and text.isdigit() and len(text) < _TOO_LONG):
            raise click.BadParameter(
                f"{text!r} is neither a number nor earliest nor latest; --last N starts N records before the end",
                param_hint="--offset",
            )
        start["offset"] = int(text) if found is None else found
    return start


def _plan(
    cluster: Cluster, consumer: Consumer, topic: str, keys: list[Key], start: dict[str, Any], *, is_committed_only: bool
) -> ReadPlan:
    """Return what is to be read. Raises click.BadParameter, Failure, KafkaException."""
    indexes = [index for _, index in keys]
    if start["last"] is not None:
        plan = last_plan(cluster, consumer, topic, indexes, start["last"], is_committed_only=is_committed_only)
    elif start["from_time"] is not None:
        since_ms = parsing.time_ms(start["from_time"], "--from-time", cluster.clock.wall_ms())
        found = cluster.run(offsets_since(keys, since_ms))
        plan = ReadPlan({key[1]: OFFSET_END if offset is None else offset for key, offset in found.items()})
    elif start["offset"] is not None:
        plan = ReadPlan(dict.fromkeys(indexes, start["offset"]))
    elif any(_is_given(start[name]) for name in ("from_beginning", *_ENDS)):
        plan = ReadPlan(dict.fromkeys(indexes, OFFSET_BEGINNING))
    else:
        plan = ReadPlan(dict.fromkeys(indexes, OFFSET_END))
    if start["last"] is None and any(_is_given(start[name]) for name in _ENDS):
        plan.bound(cluster, topic, is_committed_only=is_committed_only)
    if any(_is_given(start[name]) for name in _ENDS):
        until_time = start["until_time"]
        until_ms = None if until_time is None else parsing.time_ms(until_time, "--until-time", cluster.clock.wall_ms())
        plan.limit(earlier_ends(cluster, topic, list(plan.starts), until_ms, start["until_offset"]))
    return plan


def _is_given(value: Any) -> bool:
    """Whether an option is there: 0 is a value."""
    return value is not None and value is not False
