"""`barnabas consume TOPIC`: prints records, one a line.

Rules: without a group nothing is committed and every partition is read; with one, exactly what was printed is committed. To the
end of what was asked: a partition that cannot be read ends the command with its error.
Source: kafka-console-consumer.sh.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

from tools import parsing
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import described
from tools.failures import Failure
from tools.group_lag import Key, offsets_of
from tools.output import Output
from tools.record_filter import RecordFilter
from tools.record_view import RecordView, formatter

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_POLL_S = 0.2
_BATCH = 500


@click.command("consume")
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="start at the first record instead of the end")
@click.option(
    "--from-time", metavar="TIME", help="start at the first record since: 2026-01-31T12:00, or 1h for an hour ago"
)
@click.option("--offset", type=click.IntRange(0), help="start at this offset in each partition")
@click.option("--last", type=click.IntRange(1), metavar="N", help="print the last N records of each partition, and end")
@click.option("--until-end", is_flag=True, help="end at the records that are there now")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="read only these")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="end after N records")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="N", help="end when none has come for so long")
@click.option("--group", metavar="G", help="read as a member of this group, and commit")
@click.option("--key", help="only records with this key")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="only records with this header")
@click.option("--value-contains", metavar="TEXT", help="only records whose value contains this")
@click.option("--format", "template", default="%v", metavar="FORMAT", help="%k key, %v value, %p partition, %o offset, "
              "%D time, %h headers, %t topic [%v]")  # fmt: skip
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
    template: str,
    isolation_level: str,
    properties: tuple[str, ...],
    **start: Any,
) -> None:
    """Print the records of TOPIC, from its end on unless another start is named."""
    try:
        line_of = formatter(template)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    wanted = RecordFilter.of(key, headers, value_contains)
    plan = _plan(cluster, topic, start, is_committed_only=isolation_level == "read_committed")
    settings = {
        "group.id": group or "barnabas-consume",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest" if start["from_beginning"] else "latest",
        "isolation.level": isolation_level,
        "enable.partition.eof": False,
        "fetch.wait.max.ms": 100,
    } | parsing.settings(properties, "--consumer-property")
    consumer = cluster.consumer(settings)
    reading = _Reading(consumer, plan, line_of, wanted, output, max_messages, commits=group is not None)
    try:
        if group is None:
            consumer.assign([TopicPartition(topic, index, offset) for index, offset in plan.starts.items()])
        else:
            if plan.is_bounded or any(
                start[name] is not None for name in ("from_time", "offset", "last", "partitions")
            ):
                raise click.UsageError("with --group, the group says where to start and which partitions to read")
            consumer.subscribe([topic], on_assign=reading.on_assigned)
        reading.run(timeout_ms, cluster.clock.monotonic_ms)
    finally:
        consumer.close()
    if sys.stdout.isatty():
        Output.note(f"{reading.printed} records")


@dataclass(slots=True)
class _Plan:
    """Where each partition starts, and where it ends; no ends without a bound."""

    starts: dict[int, int]
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def is_bounded(self) -> bool:
        return bool(self.ends)


def _plan(cluster: Cluster, topic: str, start: dict[str, Any], *, is_committed_only: bool) -> _Plan:
    """Return what is to be read. Raises click.UsageError, Failure, KafkaException."""
    named = [name for name in ("from_beginning", "from_time", "offset", "last") if start[name] not in (None, False)]
    if len(named) > 1:
        raise click.UsageError("name one start: --from-beginning, --from-time, --offset or --last")
    has = [partition.id for partition in described(cluster, (topic,))[0].partitions]
    chosen = parsing.partitions(start["partitions"])
    missing = sorted(set(chosen or ()) - set(has))
    if missing:
        raise Failure(f"topic {topic} has no partition {missing[0]}")
    keys: list[Key] = [(topic, index) for index in chosen or has]
    plan = _Plan({index: OFFSET_END for _, index in keys})
    if start["until_end"] or start["last"] is not None:
        plan.ends = _known(offsets_of(cluster, keys, "latest", is_committed_only=is_committed_only))
    if start["from_beginning"] or (start["until_end"] and not named):
        plan.starts = {index: OFFSET_BEGINNING for _, index in keys}
    elif start["from_time"] is not None:
        since_ms = parsing.time_ms(start["from_time"], "--from-time", cluster.clock.wall_ms())
        found = offsets_of(cluster, keys, since_ms)
        plan.starts = {key[1]: OFFSET_END if found[key] is None else found[key] or 0 for key in keys}
    elif start["offset"] is not None:
        plan.starts = {index: start["offset"] for _, index in keys}
    elif start["last"] is not None:
        first = _known(offsets_of(cluster, keys, "earliest"))
        plan.starts = {index: max(first[index], end - start["last"]) for index, end in plan.ends.items()}
    if plan.is_bounded:
        first = _known(offsets_of(cluster, keys, "earliest"))
        for index, end in list(plan.ends.items()):
            begin = plan.starts[index]
            if begin == OFFSET_END or end <= max(begin, first[index]):  # nothing is there
                del plan.starts[index]
                del plan.ends[index]
        if not plan.ends:
            plan.starts = {}
    return plan


def _known(offsets: dict[Key, int | None]) -> dict[int, int]:
    """Raises Failure for a partition whose leader does not answer."""
    known = {}
    for (topic, index), offset in offsets.items():
        if offset is None:
            raise Failure(f"partition {topic}-{index} does not answer; `barnabas cluster health` tells more")
        known[index] = offset
    return known


class _Reading:
    """One run: polls, filters, prints."""

    def __init__(
        self,
        consumer: Consumer,
        plan: _Plan,
        line_of: Callable[[RecordView], str],
        wanted: RecordFilter,
        output: Output,
        max_messages: int | None,
        *,
        commits: bool,
    ) -> None:
        self._consumer = consumer
        self._ends = plan.ends
        self._has_nothing = not plan.starts
        self._line_of = line_of
        self._wanted = wanted
        self._output = output
        self._max_messages = max_messages
        self._commits = commits
        self._is_assigned = not commits
        self.printed = 0

    def on_assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._is_assigned = True

    def run(self, timeout_ms: int | None, now_ms: Callable[[], int]) -> None:
        """Read until the end of what was asked, or until Ctrl-C. Raises KafkaException."""
        is_bounded = bool(self._ends)
        quiet_since_ms = now_ms()
        try:
            while not self._has_nothing and not self._is_full and (self._ends or not is_bounded):
                left = _BATCH if self._max_messages is None else min(_BATCH, self._max_messages - self.printed)
                messages = self._consumer.consume(1 if self._commits else left, _POLL_S)
                for message in messages:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    self._take(message)
                if messages or not self._is_assigned:
                    quiet_since_ms = now_ms()
                    sys.stdout.flush()
                elif is_bounded:
                    self._skip_ends()
                if timeout_ms is not None and not messages and now_ms() - quiet_since_ms >= timeout_ms:
                    return
        except KeyboardInterrupt:
            return

    @property
    def _is_full(self) -> bool:
        return self._max_messages is not None and self.printed >= self._max_messages

    def _take(self, message: Any) -> None:
        end = self._ends.get(message.partition())
        if end is not None and message.offset() + 1 >= end:
            self._drop(message.topic(), message.partition())
        if (end is not None and message.offset() >= end) or self._is_full:
            return
        record = RecordView.of(message)
        if self._wanted.takes(record):
            self._output.line(record.as_json() if self._output.as_json else {}, self._line_of(record))
            self.printed += 1
        if self._commits:
            sys.stdout.flush()
            self._consumer.commit(message=message, asynchronous=False)

    def _skip_ends(self) -> None:
        """Drop partitions whose last offsets hold no records: markers of transactions, or what was compacted away."""
        asked = [TopicPartition(each.topic, each.partition) for each in self._consumer.assignment()]
        for position in self._consumer.position(asked):
            end = self._ends.get(position.partition)
            if end is not None and position.offset >= end:
                self._drop(position.topic, position.partition)

    def _drop(self, topic: str, partition: int) -> None:
        if self._ends.pop(partition, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(topic, partition)])
