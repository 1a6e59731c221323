"""`barnabas consume TOPIC`: prints records, one a line.

Rules: without a group nothing is committed and every partition is read; with one, exactly what was printed is committed. To the
end of what was asked: a partition that cannot be read ends the command with its error.
Source: kafka-console-consumer.sh.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from tools import parsing
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.format_option import Line, format_option
from tools.group_lag import offsets_of
from tools.output import Output
from tools.reading import BATCH, SETTINGS, Reading, ReadPlan, deleted_text, earlier_ends, known_offsets
from tools.record_filter import RecordFilter
from tools.record_view import RecordView
from tools.serialization import Serialization, decoded, key_bytes, serialization_options

_STARTS = ("from_beginning", "from_time", "offset", "last")
_ENDS = ("until_end", "until_offset", "until_time")


@click.command("consume")
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="start at the first record instead of the end")
@click.option(
    "--from-time", metavar="TIME", help="start at the first record since: 2026-01-31T12:00, or 1h for an hour ago"
)
@click.option("--offset", type=click.IntRange(0), help="start at this offset in each partition")
@click.option("--last", type=click.IntRange(1), metavar="N", help="print the last N records of each partition, and end")
@click.option(
    "--until-offset", type=click.IntRange(0), metavar="N", help="end before this offset, or at what is there now"
)
@click.option("--until-time", metavar="TIME", help="end before the first record since then, or at what is there now")
@click.option("--until-end", is_flag=True, help="end at the records that are there now")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="read only these")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="end after N records")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="N", help="end when none has come for so long")
@click.option("--group", metavar="G", help="read as a member of this group, and commit")
@click.option("--key", help="only records with this key")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="only records with this header")
@click.option("--value-contains", metavar="TEXT", help="only records whose value contains this")
@format_option("%v")
@serialization_options("deserializer")
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
    key_form: Serialization,
    value_form: Serialization,
    headers: tuple[str, ...],
    value_contains: str | None,
    line_of: Line,
    isolation_level: str,
    properties: tuple[str, ...],
    **start: Any,
) -> None:
    """Print the records of TOPIC, from its end on unless another start is named."""
    wanted = RecordFilter.of(key_bytes(key, key_form), headers, value_contains)
    is_committed_only = isolation_level == "read_committed"
    plan = _plan(cluster, topic, start, is_committed_only=is_committed_only)
    if group is not None and any(_is_given(start[name]) for name in (*_STARTS[1:], *_ENDS, "partitions")):
        raise click.UsageError("with --group, the group says where to start and which partitions to read")
    settings = {
        "group.id": group or "barnabas-consume",
        **SETTINGS,
        **({"auto.offset.reset": "earliest" if start["from_beginning"] else "latest"} if group is not None else {}),
        "isolation.level": isolation_level,
    } | parsing.settings(properties, "--consumer-property")
    consumer = cluster.consumer(settings)
    printing = _Printing(
        consumer, line_of, wanted, output, max_messages,
        decode=lambda record: decoded(record, key_form, value_form), commits=group is not None,
    )  # fmt: skip
    try:
        if group is not None:
            consumer.subscribe([topic], on_assign=printing.on_assigned)
        reading = Reading(consumer, topic, plan if group is None else None)
        printing.run(reading, timeout_ms, cluster.clock.monotonic_ms)
        if reading.deleted:
            Output.note(deleted_text(topic, reading.deleted))
    finally:
        consumer.close()
    if sys.stdout.isatty():
        Output.note(f"{printing.printed} records")


def _plan(cluster: Cluster, topic: str, start: dict[str, Any], *, is_committed_only: bool) -> ReadPlan:
    """Return what is to be read. Raises click.UsageError, Failure, KafkaException."""
    named = [name for name in _STARTS if _is_given(start[name])]
    if len(named) > 1:
        raise click.UsageError("name one start: --from-beginning, --from-time, --offset or --last")
    keys = partition_keys(cluster, topic, start["partitions"])
    if start["from_time"] is not None:
        since_ms = parsing.time_ms(start["from_time"], "--from-time", cluster.clock.wall_ms())
        found = offsets_of(cluster, keys, since_ms)
        plan = ReadPlan({key[1]: OFFSET_END if offset is None else offset for key, offset in found.items()})
    elif start["offset"] is not None:
        plan = ReadPlan({index: start["offset"] for _, index in keys})
    elif start["last"] is not None:
        ends = known_offsets(offsets_of(cluster, keys, "latest", is_committed_only=is_committed_only))
        plan = ReadPlan({index: max(end - start["last"], 0) for index, end in ends.items()})
    elif any(_is_given(start[name]) for name in ("from_beginning", *_ENDS)):
        plan = ReadPlan(dict.fromkeys((index for _, index in keys), OFFSET_BEGINNING))
    else:
        plan = ReadPlan(dict.fromkeys((index for _, index in keys), OFFSET_END))
    if any(_is_given(start[name]) for name in ("last", *_ENDS)):
        plan.bound(cluster, topic, is_committed_only=is_committed_only)
        plan.limit(earlier_ends(cluster, topic, list(plan.starts), start["until_time"], start["until_offset"]))
    return plan


def _is_given(value: Any) -> bool:
    """Whether an option is there: 0 is a value."""
    return value is not None and value is not False


class _Printing:
    """Filters and prints, and commits what it has printed."""

    def __init__(
        self,
        consumer: Consumer,
        line_of: Line,
        wanted: RecordFilter,
        output: Output,
        max_messages: int | None,
        *,
        decode: Callable[[RecordView], RecordView],
        commits: bool,
    ) -> None:
        self._consumer = consumer
        self._line_of = line_of
        self._wanted = wanted
        self._output = output
        self._max_messages = max_messages
        self._decode = decode
        self._commits = commits
        self._is_assigned = not commits
        self.printed = 0

    def on_assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._is_assigned = True

    def run(self, reading: Reading, timeout_ms: int | None, now_ms: Callable[[], int]) -> None:
        """Print until the end of what was asked, or until Ctrl-C. Raises KafkaException."""
        quiet_since_ms = now_ms()
        try:
            while not reading.is_finished and not self._is_full:
                messages = reading.poll(1 if self._commits else BATCH)
                for message in messages:
                    self._take(message)
                if messages or not self._is_assigned:
                    quiet_since_ms = now_ms()
                    sys.stdout.flush()
                elif timeout_ms is not None and now_ms() - quiet_since_ms >= timeout_ms:
                    return
        except KeyboardInterrupt:
            return

    @property
    def _is_full(self) -> bool:
        return self._max_messages is not None and self.printed >= self._max_messages

    def _take(self, message: Any) -> None:
        if self._is_full:
            return
        record = RecordView.of(message)
        if self._wanted.takes(record):
            record = self._decode(record)
            self._output.line(record.as_json() if self._output.as_json else {}, self._line_of(record))
            self.printed += 1
        if self._commits:
            sys.stdout.flush()
            self._consumer.commit(message=message, asynchronous=False)
