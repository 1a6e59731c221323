"""`barnabas dlq`: dead letters of a topic are listed, shown, brought back and deleted.

Rules: parsing and printing; `relay.dead_letters` does the work. Dead letters of `barnabas pipeline route`, of the relay, of
`barnabas.retry`, of Spring Kafka and of Kafka Connect are understood alike (`client.letters.headers`). Each command looks at
the letters that there are when it begins. What was brought back stays where it is, and is marked (`relay.dead_letters.marks`):
no run brings it back again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from client.admin.replicas import delete_records
from client.letters.headers import TABLE, shown
from protocol.errors import KafkaError
from relay.dead_letters.fates import Fate, RequeueRule
from relay.dead_letters.selection import LetterSelection
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.texts import count_text, time_text
from tools.cluster import CHANGE_TIMEOUT_MS, Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import told
from tools.names_given import one_name
from tools.records.record_view import RecordView

if TYPE_CHECKING:
    from client.letters.headers import Letter
    from client.reading.positions import ReadRecord
    from relay.commands.letters_of_topic import LettersOfTopic

command = Commands("dlq", help="Dead letters of a topic.")
BY = ("reason", "exception", "source-topic", "group")


def letter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `cluster_command`; the function is called with `letters`, too: the topic and which of its letters are meant."""

    @functools.wraps(function)
    def run(
        *,
        cluster: Cluster,
        topic: str,
        reason: str | None,
        exception: str | None,
        source_topic: str | None,
        group: str | None,
        partitions: str | None,
        from_time: str | None,
        until_time: str | None,
        from_offset: int | None,
        until_offset: int | None,
        **others: Any,
    ) -> Any:
        now_ms = cluster.clock.wall_ms()
        since_ms, until_ms = (
            None if text is None else parsing.time_ms(text, option, now_ms)
            for text, option in ((from_time, "--from-time"), (until_time, "--until-time"))
        )
        selection = LetterSelection(
            reason, exception, source_topic, group, since_ms, until_ms, from_offset, until_offset
        )
        from relay.commands.letters_of_topic import LettersOfTopic  # noqa: PLC0415  help needs no event loop

        letters = LettersOfTopic(cluster, topic, selection, partition_keys(cluster, topic, partitions))
        return function(cluster=cluster, letters=letters, **others)

    decorated: Callable[..., Any] = cluster_command(run)
    for option in reversed((
        one_name("topic"),
        click.option("--reason", metavar="TEXT", help="letters whose reason holds this"),
        click.option("--exception", metavar="TEXT", help="whose class of the exception holds this"),
        click.option("--source-topic", metavar="NAME", help="that failed in this topic"),
        click.option("--group", metavar="NAME", help="that failed in this consumer group, where that is told"),
        click.option("--partitions", "--partition", metavar="0,2,5-7", help="in these partitions of TOPIC"),
        click.option("--from-time", metavar="TIME", help="dead since: 2026-01-31T12:00, or 1h for an hour ago"),
        click.option("--until-time", metavar="TIME", help="dead before"),
        click.option("--from-offset", type=parsing.OFFSET, metavar="N", help="at this offset of TOPIC or behind it"),
        click.option("--until-offset", type=parsing.OFFSET, metavar="N", help="before this offset"),
    )):  # fmt: skip
        decorated = option(decorated)
    return decorated


@command.command("list")
@click.option("--by", type=click.Choice(BY), help="count the letters by this, instead of listing each")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="end after N letters")
@click.option("--all", "is_all", is_flag=True, help="also those that were brought back")
@letter_options
def list_letters(
    cluster: Cluster, output: Output, *, letters: LettersOfTopic, by: str | None, max_messages: int | None, is_all: bool
) -> None:
    """List the dead letters of TOPIC that were not brought back, or count them by reason."""
    rule = RequeueRule(letters.topic, letters.selection)
    counts: Counter[str | None] = Counter()
    times: dict[str | None, tuple[int, int]] = {}

    def take(one: ReadRecord) -> bool:
        fate, letter = rule.fate(one.partition, one.record, letters.marks, cluster.clock.wall_ms())
        if fate is Fate.NOT_MEANT or (fate is Fate.HANDLED and not is_all):
            return True
        if fate is Fate.HANDLED and not letters.selection.takes(letter, one.record.offset, one.record.timestamp):
            return True
        value = None if by is None else getattr(letter, by.replace("-", "_"))
        counts[value] += 1
        first_ms, last_ms = times.get(value, (one.record.timestamp, one.record.timestamp))
        times[value] = min(first_ms, one.record.timestamp), max(last_ms, one.record.timestamp)
        if by is None:
            row = _row(one, letter, fate, cluster.clock.wall_ms())
            output.line(row, _line(row))
        return max_messages is None or counts.total() < max_messages

    letters.each(take)
    if by is not None:
        name = by.replace("-", "_")
        rows = [
            {name: value, "letters": count, "first": time_text(times[value][0]), "last": time_text(times[value][1])}
            for value, count in counts.most_common()
        ]
        output.table(rows, (name, "letters", "first", "last"))
    else:
        Output.note(f"{count_text(counts.total(), 'dead letter')} in {letters.topic}")


@command.command("show")
@one_name("topic")
@click.option("--partition", type=click.IntRange(0), required=True, metavar="P", help="its partition")
@click.option("--offset", type=parsing.OFFSET, required=True, metavar="N", help="its offset")
@cluster_command
def show_letter(cluster: Cluster, output: Output, *, topic: str, partition: int, offset: int) -> None:
    """Show one dead letter of TOPIC: what its headers say, its key and its value."""
    from relay.commands.letters_of_topic import LettersOfTopic  # noqa: PLC0415  help needs no event loop

    selection = LetterSelection(from_offset=offset, until_offset=offset + 1)
    letters = LettersOfTopic(cluster, topic, selection, partition_keys(cluster, topic, str(partition)))
    found: list[ReadRecord] = []

    def take(one: ReadRecord) -> bool:
        found.append(one)
        return False

    letters.each(take)
    if not found:
        raise Failure(
            f"partition {topic}-{partition} has no record at {offset}; `barnabas dlq list {topic}` shows the letters"
        )
    [one] = found
    rule = RequeueRule(topic, LetterSelection())
    fate, letter = rule.fate(partition, one.record, letters.marks, cluster.clock.wall_ms())
    record = one.record
    view = RecordView(topic, partition, offset, record.timestamp, record.key, record.value, record.headers)
    told_headers = {name: shown(TABLE[name], value) for name, value in record.headers if name in TABLE}
    row = _row(one, letter, fate, cluster.clock.wall_ms())
    if output.as_json:
        output.document({"letter": row | {"headers": told_headers}, "record": view.as_json()})
        return
    rest = [(name, None if value is None else value.decode("utf-8", "backslashreplace"))
            for name, value in record.headers if name not in TABLE]  # fmt: skip
    as_json = view.as_json()
    lines = [(name.replace("_", " "), value) for name, value in row.items() if value not in (None, "")]
    lines += [*told_headers.items(), *rest]
    lines += [(name, as_json[name]) for name in ("key", "key_base64", "value", "value_base64") if name in as_json]
    width = max(len(name) for name, _ in lines)
    Output.lines("\n".join(f"{name.ljust(width)}  {value}" for name, value in lines))


@command.command("requeue")
@click.option("--to", metavar="TOPIC", help="bring them to this topic, instead of the one in which each failed")
@click.option("--keep-attempts", is_flag=True, help="keep how many attempts failed; else each begins anew")
@click.option("--include-expired", is_flag=True, help="also those that have expired")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="end after N letters")
@execute_option("bring the letters back")
@letter_options
def requeue_letters(
    cluster: Cluster,
    output: Output,
    *,
    letters: LettersOfTopic,
    to: str | None,
    keep_attempts: bool,
    include_expired: bool,
    max_messages: int | None,
    execute: bool,
) -> None:
    """Bring dead letters of TOPIC back to the topics in which they failed. A dry run, unless --execute is given.

    Letters and marks that they were brought back are written in transactions: each letter comes back once, also if a run is
    interrupted and started again, for whoever reads committed records.
    """
    if to == letters.topic:
        raise click.UsageError(f"--to {to} is where the letters are")
    rule = RequeueRule(letters.topic, letters.selection, to, keep_attempts, include_expired)
    if execute:
        letters.make_marks_topic()
    work = letters.requeue(rule, max_messages, is_execution=execute)
    rows = [{"target": target, "letters": count} for target, count in sorted(work.targets.items())]
    output.table(rows, ("target", "letters"))
    for fate in (Fate.HANDLED, Fate.EXPIRED, Fate.NO_SOURCE, Fate.TO_ITSELF):
        if work.fates[fate]:
            Output.note(f"{count_text(work.fates[fate], 'letter')} {fate.value}")
    for target, count in sorted(work.missing.items()):
        Output.note(f"{count_text(count, 'letter')} of topic {target}, which does not exist: --to names where they go")
    if not execute:
        Output.note("nothing was brought back: --execute does it")


@command.command("purge")
@click.option("--all", "is_all", is_flag=True, help="all letters, also those that nothing was done about")
@execute_option("delete the letters")
@letter_options
def purge_letters(cluster: Cluster, output: Output, *, letters: LettersOfTopic, is_all: bool, execute: bool) -> None:
    """Delete dead letters of TOPIC that were brought back or have expired; with options that choose letters, those as well.

    Records are deleted from the start of each partition, up to the first letter that is to stay. A dry run, unless --execute
    is given.
    """
    selects = letters.selection != LetterSelection()
    if is_all and selects:
        raise click.UsageError("--all does not go with options that choose letters")
    purge, first, ends = letters.purge(selects=selects or is_all)
    before = {key: purge.stays_from.get(key[1], end) for key, end in ends.items()}
    rows = [
        {"topic": key[0], "partition": key[1], "first_offset": first[key], "new_first_offset": offset,
         "letters": purge.going.get(key[1], 0)}
        for key, offset in before.items()
    ]  # fmt: skip
    if execute:
        for (name, index), result in cluster.run(delete_records(before, CHANGE_TIMEOUT_MS), CHANGE_TIMEOUT_MS).items():
            if isinstance(result, KafkaError):
                raise Failure(f"partition {name}-{index}: {told(result)}")
    output.table(rows, ("topic", "partition", "first_offset", "new_first_offset", "letters"))
    if purge.behind:
        Output.note(f"not deleted, because letters before them stay: {count_text(purge.behind, 'letter')}")
    if not execute:
        Output.note("nothing was deleted: --execute deletes what is before these offsets")


def _row(one: ReadRecord, letter: Letter, fate: Fate, now_ms: int) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.record.offset,
        "time": time_text(one.record.timestamp),
        "reason": letter.reason,
        "exception": letter.exception,
        "group": letter.group,
        "source_topic": letter.source_topic,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "attempts": max(letter.attempt, letter.retries),
        "is_expired": letter.is_expired(now_ms),
        "is_brought_back": fate is Fate.HANDLED,
    }


def _line(row: dict[str, Any]) -> str:
    parts = [f"{row['topic']}-{row['partition']}@{row['offset']}", row["time"], f"attempts={row['attempts']}"]
    if row["source_topic"] is not None:
        place = f"{row['source_topic']}"
        if row["source_partition"] is not None:
            place += f"-{row['source_partition']}@{'?' if row['source_offset'] is None else row['source_offset']}"
        parts.append(f"from={place}")
    parts += [word for name, word in (("is_expired", "expired"), ("is_brought_back", "brought-back")) if row[name]]
    parts.append(row["reason"] or "no reason given")
    return "  ".join(parts)
