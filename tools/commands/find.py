"""`barnabas find TOPIC`: looks for records on a live cluster.

Rules: the partition that the partitioner of the key names is read first, then the others, because the record may have been
written by another client or before the topic got more partitions. Hits are printed as they come. The command reads to the end
of what was asked, or it fails and says how far it came: an exit code of 0 means that everything was looked through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException

from protocol.key_hashes import PARTITIONERS
from runtime.command_line import parsing
from runtime.command_line.failure import Failure, Interrupted
from runtime.command_line.output import Output
from runtime.command_line.progress import Progress
from runtime.texts import count_text
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.group_lag import offsets_since
from tools.names_given import one_name
from tools.records.format_option import format_options, line_text, template_line
from tools.records.line_template import LineTemplate
from tools.records.line_text import Line
from tools.records.reading import SETTINGS, Reading, ReadPlan, earlier_ends, tell_gaps
from tools.records.record_filter import RecordFilter
from tools.records.record_view import RecordView, UnreadableHeaders
from tools.records.serialization import Serialization, decoded, key_bytes, serialization_options


@click.command("find")
@one_name("topic")
@click.option("--key", help="records with this key")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="with this header; may be repeated")
@click.option("--value-contains", metavar="TEXT", help="whose value contains this")
@click.option("--json-path", "paths", multiple=True, metavar="PATH=VALUE",
              help="whose JSON value has this: order.items[0].sku=A7; may be repeated")  # fmt: skip
@click.option("--partitioner", type=click.Choice(list(PARTITIONERS)), default="murmur2",
              help="how its client chooses the partition of a key [murmur2]")  # fmt: skip
@click.option("--key-partition-only", is_flag=True, help="search only the partition that the key belongs to")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="search only these partitions")
@click.option("--from-time", metavar="TIME", help="timestamp since: 2026-01-31T12:00, or 1h for an hour ago")
@click.option("--until-time", metavar="TIME",
              help="timestamp before; ends each partition at the first record that is not")  # fmt: skip
@click.option("--from-offset", type=parsing.OFFSET, metavar="N", help="at this offset or behind it")
@click.option("--until-offset", type=parsing.OFFSET, metavar="N", help="before this offset")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="end after N hits")
@format_options("%t-%p@%o %D %k %v")
@serialization_options("deserializer")
@click.option("--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_committed",
              help="[read_committed]")  # fmt: skip
@cluster_command
def command(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    key: str | None,
    key_form: Serialization,
    value_form: Serialization,
    headers: tuple[str, ...],
    value_contains: str | None,
    paths: tuple[str, ...],
    partitioner: str,
    key_partition_only: bool,
    partitions: str | None,
    max_messages: int | None,
    template: LineTemplate,
    is_raw: bool,
    isolation_level: str,
    **bounds: Any,
) -> None:
    """Find records of TOPIC by key, header, part of the value or a field of its JSON."""
    line_of = template_line(template, line_text(is_raw=is_raw, as_json=output.as_json))
    key_data = key_bytes(key, key_form)
    wanted = RecordFilter.of(key_data, headers, value_contains, paths)
    if wanted == RecordFilter():
        raise click.UsageError("say what to look for: --key, --header, --value-contains or --json-path")
    indexes = [index for _, index in partition_keys(cluster, topic, partitions)]
    groups = [indexes]
    if key_data is not None and partitions is None:
        first = PARTITIONERS[partitioner](key_data, len(indexes))
        groups = [[first], [] if key_partition_only else [index for index in indexes if index != first]]
    elif key_partition_only:
        raise click.UsageError("--key-partition-only goes with --key and without --partitions")
    until_time = bounds["until_time"]
    bounds |= _times_ms(cluster, bounds)
    search = _Search(cluster, output, topic, max_messages, isolation_level)
    search.plan(groups, bounds)
    search.run(
        replace(wanted, since_ms=bounds["from_time"], until_ms=bounds["until_time"]),
        line_of,
        lambda record: decoded(record, key_form, value_form),
    )
    search.report(until_time)


class _Search:
    """Reads the planned ranges, one group of partitions after the other, and counts."""

    def __init__(
        self, cluster: Cluster, output: Output, topic: str, max_messages: int | None, isolation_level: str
    ) -> None:
        self._cluster = cluster
        self._output = output
        self._topic = topic
        self._max_messages = max_messages
        self._isolation_level = isolation_level
        self._plans: list[ReadPlan] = []
        self._partitions = 0
        self._hits = 0
        self._looked = 0
        self._unreadable = 0
        self._deleted: dict[int, int] = {}
        self._withheld: dict[int, int] = {}
        self._progress: Progress | None = None

    @property
    def is_full(self) -> bool:
        return self._max_messages is not None and self._hits >= self._max_messages

    def plan(self, groups: list[list[int]], bounds: dict[str, Any]) -> None:
        """Determine the ranges of all partitions now, so that records that come meanwhile do not lengthen the search."""
        is_committed_only = self._isolation_level == "read_committed"
        self._partitions = sum(map(len, groups))
        for indexes in groups:
            plan = _bounded_plan(self._cluster, self._topic, indexes, bounds, is_committed_only)
            self._deleted |= plan.deleted
            self._withheld |= plan.withheld
            if plan.starts:
                self._plans.append(plan)
        total = sum(end - plan.starts[index] for plan in self._plans for index, end in plan.ends.items())
        self._progress = Progress("records looked through", total, self._cluster.clock)

    def run(self, wanted: RecordFilter, line_of: Line, decode: Callable[[RecordView], RecordView]) -> None:
        """Look through the ranges. Raises Failure when a partition cannot be read, Interrupted."""
        for number, plan in enumerate(self._plans):
            if self.is_full:
                return
            left = {index: start for later in self._plans[number:] for index, start in later.starts.items()}
            settings = {**SETTINGS, "group.id": "barnabas-find", "isolation.level": self._isolation_level,
                        "queued.min.messages": 100_000}  # fmt: skip
            consumer = self._cluster.consumer(settings)
            waits = self._cluster.waits
            reading = Reading(consumer, self._topic, plan, waits.moved)
            try:
                with waits.reading(self._topic, reading.left):
                    self._read(reading, wanted, line_of, decode)
            except KafkaException as error:
                raise Failure(
                    f"the search is incomplete, {self._left(reading, left)}: {waits.told(error.args[0])}"
                ) from error
            except KeyboardInterrupt:
                raise Interrupted(
                    f"the search was interrupted after {count_text(self._looked, 'record')} with "
                    f"{count_text(self._hits, 'hit')}: it is incomplete, "
                    f"{self._left(reading, left)}"
                ) from None
            finally:
                consumer.close()
            self._deleted |= reading.deleted

    def _read(
        self, reading: Reading, wanted: RecordFilter, line_of: Line, decode: Callable[[RecordView], RecordView]
    ) -> None:
        assert self._progress is not None
        while not reading.is_finished and not self.is_full:
            for message in reading.poll():
                self._looked += 1
                if self._takes(wanted, message) and not self.is_full:
                    record = _shown(RecordView.of(message), decode)
                    self._hits += 1
                    self._output.record(record.as_json, line_of(record))
                    sys.stdout.flush()
            self._progress.show(self._looked, count_text(self._hits, "hit"))

    def _takes(self, wanted: RecordFilter, message: Any) -> bool:
        try:
            return wanted.takes_message(message)
        except UnreadableHeaders:
            self._unreadable += 1
            return False

    def _left(self, reading: Reading, left: dict[int, int]) -> str:
        """Return where the search stopped; `left` has the starts of what was not finished before this reading."""
        positions = reading.positions()
        done = reading.started - positions.keys()
        places = {index: positions.get(index, start) for index, start in left.items() if index not in done}
        return "it stopped at " + ", ".join(f"{self._topic}-{index} at {at}" for index, at in sorted(places.items()))

    def report(self, until_time: str | None) -> None:
        """Say how far it has looked, and what it could not look at."""
        assert self._progress is not None
        partitions = count_text(self._partitions, "partition")
        reached = f"to the end of {partitions}"
        if self.is_full:
            reached = "ended at the wanted number of hits"
        elif until_time is not None:
            reached = f"to the first one since {until_time} in each of {partitions}"
        self._progress.close()
        tell_gaps(self._topic, self._deleted, self._withheld, self._unreadable)
        Output.note(
            f"{count_text(self._hits, 'hit')} in {count_text(self._looked, 'record')}, {reached} "
            f"({self._progress.rate_text(self._looked)})"
        )


def _shown(record: RecordView, decode: Callable[[RecordView], RecordView]) -> RecordView:
    """Return the record as the deserializers make it, or its bytes where they do not take them: it is found all the same."""
    try:
        return decode(record)
    except Failure as failure:
        Output.note(f"{failure.message}; its bytes are shown")
        return record


def _times_ms(cluster: Cluster, bounds: dict[str, Any]) -> dict[str, int | None]:
    """Return what --from-time and --until-time mean, once for the plan and the filter. Raises click.BadParameter."""
    now_ms = cluster.clock.wall_ms()
    return {
        name: None if bounds[name] is None else parsing.time_ms(bounds[name], option, now_ms)
        for name, option in (("from_time", "--from-time"), ("until_time", "--until-time"))
    }


def _bounded_plan(
    cluster: Cluster, topic: str, indexes: list[int], bounds: dict[str, Any], is_committed_only: bool
) -> ReadPlan:
    """Return the ranges of these partitions. `bounds` has its times in ms. Raises click.UsageError, Failure."""
    if bounds["from_time"] is not None and bounds["from_offset"] is not None:
        raise click.UsageError("--from-time and --from-offset do not go together")
    keys = [(topic, index) for index in indexes]
    plan = ReadPlan(
        dict.fromkeys(indexes, OFFSET_BEGINNING if bounds["from_offset"] is None else bounds["from_offset"])
    )
    if bounds["from_time"] is not None:
        since = cluster.run(offsets_since(keys, bounds["from_time"]))
        plan.starts = {key[1]: OFFSET_END if offset is None else offset for key, offset in since.items()}
    plan.bound(cluster, topic, is_committed_only=is_committed_only)
    plan.limit(earlier_ends(cluster, topic, list(plan.starts), bounds["until_time"], bounds["until_offset"]))
    return plan
