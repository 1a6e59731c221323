"""`barnabas delayed`: what waits in a relay until it is due: list it, show one message, cancel one.

Rules: what waits is what the relay's log says; no process of the relay is asked. A cancellation is a record that anybody may
write who may write to the source: it goes to the partition of the message, with its key and its id, and the relay decides
whether it comes in time. Only messages with an id can be cancelled. What the relay has not taken in does not wait yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from heapq import nsmallest
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeVar

import click

from client.admin import groups as group_steps
from client.admin.steps import Steps
from client.event_loop.producer import AsyncProducer
from client.letters.headers import CANCEL, ID, read
from protocol.errors import KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition
from relay.commands.loop import NewClient, on_loop
from relay.commands.relay_option import relay_option
from relay.inspection.figures import COLUMNS, WaitingFigures
from relay.inspection.finding import FoundMessage, find_by_id, find_by_place
from relay.inspection.log_view import Ending
from relay.inspection.reading import Placed, RelayInspection, source_offset
from relay.names import RelayNames
from relay.rules.table import RuleTable
from relay.waiting.entries import offset_of
from relay.waiting.index_records import EntryOutcome
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.randomness import system_randomness
from runtime.texts import count_text, time_text
from tools.cluster import Cluster, cluster_command
from tools.group_lag import offsets_of
from tools.names_given import one_name, some_names
from tools.records.record_view import NO_TIMESTAMP, RecordView

T = TypeVar("T")
_Work = Callable[[RelayInspection, NewClient], Awaitable[T]]

_FIGURES: Final = ("waiting", *COLUMNS, "not_taken_in")
_MESSAGE_COLUMNS: Final = ("due", "source", "partition", "offset", "key", "id", "value_bytes")
_NO_END_MS: Final = 1 << 62
_OK: Final = "ok"
_NO_RULE: Final = "it has no rule"
_OUTCOMES: Final = {
    EntryOutcome.DELIVERED: "was delivered",
    EntryOutcome.CANCELLED: "was cancelled",
    EntryOutcome.REPLACED: "was replaced by a later one with its id",
    EntryOutcome.EXPIRED: "has expired, and is a dead letter",
    EntryOutcome.DEAD_LETTERED: "is a dead letter",
    EntryOutcome.GONE: "is lost: its content was deleted before it was due",
}

command = Commands("delayed", help="Messages that a relay delivers later.")


def _message_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a message."""
    for option in (
        click.option("--offset", type=parsing.OFFSET, metavar="N", help="at this offset"),
        click.option("--partition", type=click.IntRange(0), metavar="P", help="or the one in this partition of SOURCE"),
        click.option("--id", "message_id", metavar="ID", help=f"the message with this id, the header {ID}"),
    ):
        function = option(function)
    return function


@command.command("list")
@some_names("source", is_required=False)
@click.option(
    "--messages", "are_messages", is_flag=True, help="list messages, beginning with the one that is due first"
)
@click.option("--by-partition", is_flag=True, help="a row for each partition of a source")
@click.option(
    "--due-before", metavar="TIME", help="messages that are due before: 2026-01-31T12:00, or +1h for in an hour"
)
@click.option("--max-messages", type=click.IntRange(1), default=100, metavar="N", help="list so many messages [100]")
@relay_option
@cluster_command
def list_waiting(
    cluster: Cluster,
    output: Output,
    *,
    sources: tuple[str, ...],
    are_messages: bool,
    by_partition: bool,
    due_before: str | None,
    max_messages: int,
    names: RelayNames,
) -> None:
    """List how much waits of each source topic of the relay, or of SOURCES, and when it is due; with --messages, which."""
    now_ms = cluster.clock.wall_ms()
    if not are_messages:
        if due_before is not None:
            raise click.UsageError("--due-before goes with --messages")
        _list_sources(cluster, output, names, sources, now_ms, by_partition=by_partition)
        return
    until_ms = _NO_END_MS if due_before is None else _time_ms(due_before, now_ms)
    found = _carry_out(cluster, names, _soonest(sources, until_ms, max_messages))
    output.table([_message_row(placed, content) for placed, content in found.rows], _MESSAGE_COLUMNS)
    _note_unreadable(found.unreadable)
    if found.left:
        Output.note(f"{count_text(found.left, 'more message', 'waits', 'wait')}: --max-messages shows more")


@command.command("show")
@one_name("source")
@_message_options
@relay_option
@cluster_command
def show_message(
    cluster: Cluster,
    output: Output,
    *,
    source: str,
    message_id: str | None,
    partition: int | None,
    offset: int | None,
    names: RelayNames,
) -> None:
    """Show a message of SOURCE that waits: when it is due, where it is, its content; or what became of it."""
    wanted = _wanted(source, message_id, partition, offset)
    found = _found(cluster, names, wanted)
    document = _message_document(found)
    if output.as_json:
        output.document(document)
        return
    for name, value in document.items():
        if name not in ("due_ms", "timestamp_ms"):
            output.line({}, f"{name.replace('_', ' ')}: {_shown(value)}")


@command.command("cancel")
@one_name("source")
@_message_options
@click.option("--wait", "wait_text", default="30s", metavar="DURATION", help="wait so long for the relay [30s]")
@execute_option("cancel the message")
@relay_option
@cluster_command
def cancel_message(
    cluster: Cluster,
    output: Output,
    *,
    source: str,
    message_id: str | None,
    partition: int | None,
    offset: int | None,
    wait_text: str,
    execute: bool,
    names: RelayNames,
) -> None:
    """Cancel a message of SOURCE that waits, and tell whether that was in time. A dry run, unless --execute is given."""
    wait_ms = parsing.duration_ms(wait_text, "--wait")
    found = _found(cluster, names, _wanted(source, message_id, partition, offset))
    if found.content is None:
        raise Failure("the content of the message cannot be read: its key and its id are not known")
    if read(found.content.headers).message_id is None:
        raise Failure(f"the message has no header {ID}: only one with an id can be cancelled")
    document = _message_document(found)
    named = f"{document['source']}-{document['partition']} offset {document['offset']}"
    if not execute:
        output.result(document, f"{named}: due {document['due']}")
        Output.note("nothing was cancelled: --execute cancels this message")
        return
    ending = _carry_out(cluster, names, _cancelled(found, cluster, wait_ms))
    if ending is None:
        raise Failure(
            f"{named}: the cancellation is written, and the relay {names.name} has not taken it in within {wait_text}; "
            "`barnabas delayed show` tells what becomes of it"
        )
    if ending.outcome is not EntryOutcome.CANCELLED:
        raise Failure(f"too late: {named} {_ending_text(ending)}")
    output.result(document, f"{named}: cancelled")


# --- listing sources ---


class _Sources(NamedTuple):
    figures: dict[TopicPartition, WaitingFigures]
    rules: RuleTable
    unreadable: int

    def state(self, topic: str) -> str:
        """Return whether the rule of a source holds, as far as the rules themselves say it."""
        has_rule = any(rule.source == topic for rule in self.rules.rules())
        return self.rules.suspended().get(topic, _OK if has_rule else _NO_RULE)


def _list_sources(
    cluster: Cluster, output: Output, names: RelayNames, sources: tuple[str, ...], now_ms: int, *, by_partition: bool
) -> None:
    found = _carry_out(cluster, names, _figures(sources, now_ms))
    positions = {key: each.position for key, each in found.figures.items()}
    not_taken_in = cluster.run(_not_taken_in(names.name, positions)) if positions else {}
    rows: dict[str | TopicPartition, dict[str, Any]] = {}
    for key, figures in sorted(found.figures.items()):
        new: dict[str, Any] = {
            "source": key[0],
            **({"partition": key[1]} if by_partition else {}),
            "waiting": 0,
            "next_due_ms": None,
            **dict.fromkeys(COLUMNS, 0),
            "not_taken_in": 0,
            "state": found.state(key[0]),
        }
        row = rows.setdefault(key if by_partition else key[0], new)
        row["waiting"] += figures.count
        dues = [each for each in (row["next_due_ms"], figures.next_due_ms) if each is not None]
        row["next_due_ms"] = min(dues, default=None)
        for name, count in figures.by_time.items():
            row[name] += count
        more = not_taken_in[key]
        row["not_taken_in"] = None if more is None or row["not_taken_in"] is None else row["not_taken_in"] + more
    for row in rows.values():
        row["next_due"] = None if row["next_due_ms"] is None else time_text(row["next_due_ms"])
    columns = ("source", *(("partition",) if by_partition else ()), "waiting", "next_due", *_FIGURES[1:], "state")
    output.table(rows.values(), columns)
    _note_unreadable(found.unreadable)


def _figures(sources: tuple[str, ...], now_ms: int) -> _Work[_Sources]:
    async def work(inspection: RelayInspection, _: NewClient) -> _Sources:
        rules = await inspection.rules()
        keys = await inspection.partitions_of(sources) if sources else None
        there = await inspection.partitions_there({rule.source for rule in rules.rules()}) if keys is None else keys
        figures = {key: WaitingFigures() for key in there}
        unreadable = 0
        async for view in inspection.views(keys):
            unreadable += view.unreadable
            figures |= {
                key: WaitingFigures.of(each, now_ms)
                for key, each in view.indexes.items()
                if each.count or key in figures
            }
        return _Sources(figures, rules, unreadable)

    return work


def _not_taken_in(
    group: str, positions: Mapping[TopicPartition, int | None]
) -> Steps[dict[TopicPartition, int | None]]:
    """Return how many offsets of source partitions the relay has not taken in; None where that is not known. `positions` are
    those of its log, which count where brokers have forgotten the group's offsets."""
    keys = positions.keys()
    committed = (yield from group_steps.committed_offsets_of([group]))[group]
    first, end = (yield from offsets_of(keys, EARLIEST)), (yield from offsets_of(keys, LATEST, is_committed_only=True))
    found: dict[TopicPartition, int | None] = dict.fromkeys(keys)
    for key in keys:
        start, behind = first[key], end[key]
        if start is not None and behind is not None and not isinstance(committed, KafkaError):
            known = committed.get(key, positions[key])
            found[key] = max(behind - (start if known is None else known), 0)
    return found


# --- messages ---


def _time_ms(text: str, now_ms: int) -> int:
    """Return a time, which lies ahead with a plus in front. Raises click.BadParameter."""
    if text.startswith("+"):
        return now_ms + parsing.duration_ms(text[1:], "--due-before")
    return parsing.time_ms(text, "--due-before", now_ms)


class _Messages(NamedTuple):
    rows: list[tuple[Placed, Record | None]]
    left: int
    unreadable: int


class _Wanted(NamedTuple):
    """A message of a source topic, by its id or its place."""

    source: str
    message_id: bytes | None
    partition: int
    offset: int

    @property
    def text(self) -> str:
        if self.message_id is not None:
            return f"a message of {self.source} with the id {self.message_id.decode(errors='backslashreplace')}"
        return f"the message at offset {self.offset} of {self.source}-{self.partition}"


def _wanted(source: str, message_id: str | None, partition: int | None, offset: int | None) -> _Wanted:
    if message_id is not None and partition is None and offset is None:
        return _Wanted(source, message_id.encode(), 0, 0)
    if message_id is None and partition is not None and offset is not None:
        return _Wanted(source, None, partition, offset)
    raise click.UsageError("name a message: by --id, or by --partition and --offset")


def _soonest(sources: tuple[str, ...], until_ms: int, limit: int) -> _Work[_Messages]:
    async def work(inspection: RelayInspection, _: NewClient) -> _Messages:
        keys = await inspection.partitions_of(sources) if sources else None
        soonest: list[Placed] = []
        count = unreadable = 0
        async for view in inspection.views(keys):
            unreadable += view.unreadable
            for key, index in view.indexes.items():
                count += sum(1 for _ in takewhile(lambda each: each.due_ms < until_ms, index.entries()))
                soonest += [(key, each) for each in index.ahead(until_ms - 1, limit)]
            soonest = nsmallest(limit, soonest, key=lambda each: each[1].due_ms)
        contents = await inspection.contents(soonest)
        return _Messages([(each, contents.get(each)) for each in soonest], count - len(soonest), unreadable)

    return work


def _found(cluster: Cluster, names: RelayNames, wanted: _Wanted) -> FoundMessage:
    """Return a message that waits. Raises Failure for one that does not."""

    async def work(inspection: RelayInspection, _: NewClient) -> FoundMessage:
        if wanted.message_id is not None:
            return await find_by_id(inspection, wanted.source, wanted.message_id)
        source = wanted.source, wanted.partition
        if source not in await inspection.partitions_of([wanted.source]):
            raise Failure(f"topic {wanted.source} has no partition {wanted.partition}")
        return await find_by_place(inspection, source, wanted.offset, cluster.clock.wall_ms())

    found = _carry_out(cluster, names, work)
    _note_unreadable(found.unreadable)
    if found.placed is not None:
        return found
    if found.endings:
        raise Failure(f"{wanted.text} {_ending_text(found.endings[-1])}")
    left = sum(each or 0 for each in cluster.run(_not_taken_in(names.name, found.positions)).values())
    more = f"; the relay has {count_text(left, 'record')} of {wanted.source} to take in" if left else ""
    raise Failure(
        f"{wanted.text} does not wait, and the log remembers no end of it; `barnabas trace` looks for copies{more}"
    )


def _cancelled(found: FoundMessage, cluster: Cluster, wait_ms: int) -> _Work[Ending | None]:
    """Write a cancellation, and wait until the message ends; None when it does not in time."""

    async def work(inspection: RelayInspection, new_client: NewClient) -> Ending | None:
        assert found.placed is not None and found.content is not None
        (topic, partition), entry = found.placed
        headers = [(ID, read(found.content.headers).message_id), (CANCEL, b"")]
        producer = AsyncProducer(new_client(), cluster.clock.wall_ms, system_randomness())
        try:
            await (await producer.send(topic, None, found.content.key, headers=headers, partition=partition))
        finally:
            await producer.close()
        until_s = asyncio.get_running_loop().time() + wait_ms / 1000
        return await inspection.ending((topic, partition), entry.place, found.log_end, until_s)

    return work


def _carry_out(cluster: Cluster, names: RelayNames, work: _Work[T]) -> T:
    """Return the result of `work` on what waits in a relay. Raises KafkaError, and what it raises."""
    randomness = system_randomness()

    async def run(new_client: NewClient) -> T:
        inspection = RelayInspection(new_client(), randomness, names)
        await inspection.begin()
        return await work(inspection, new_client)

    return on_loop(cluster, randomness, run)


# --- what is shown ---


def _message_row(placed: Placed, content: Record | None) -> dict[str, Any]:
    (topic, partition), entry = placed
    view = _view(placed, content).as_json()
    return {
        "due": time_text(entry.due_ms),
        "due_ms": entry.due_ms,
        "source": topic,
        "partition": partition,
        "offset": source_offset(entry, content),
        **{name: view[name] for name in ("key", "key_base64") if name in view},
        "id": None if content is None else _id_text(content),
        "value_bytes": None if content is None or content.value is None else len(content.value),
    }


def _message_document(found: FoundMessage) -> dict[str, Any]:
    assert found.placed is not None
    row = _message_row(found.placed, found.content)
    del row["value_bytes"]
    view = _view(found.placed, found.content).as_json()
    return {
        **row,
        "waits_in": "{}-{} offset {}".format(*found.place or ()),
        "is_content_there": found.content is not None,
        "timestamp_ms": view["timestamp"],
        **{name: view[name] for name in ("value", "value_base64", "headers") if name in view},
    }


def _view(placed: Placed, content: Record | None) -> RecordView:
    (topic, partition), entry = placed
    if content is None:
        return RecordView(topic, partition, offset_of(entry.place), NO_TIMESTAMP, None, None)
    return RecordView(
        topic, partition, content.offset, content.timestamp, content.key, content.value, tuple(content.headers)
    )


def _id_text(content: Record) -> str | None:
    found = read(content.headers).message_id
    return None if found is None else found.decode(errors="backslashreplace")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each['name']}={each.get('value', each.get('value_base64'))}" for each in value) or "-"
    return "-" if value is None else str(value)


def _ending_text(ending: Ending) -> str:
    return f"{_OUTCOMES[ending.outcome]}, at {time_text(ending.time_ms)}"


def _note_unreadable(count: int) -> None:
    if count:
        Output.note(f"{count_text(count, 'record')} of the relay's log cannot be read: no relay wrote them so")
