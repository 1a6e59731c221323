"""`barnabas log find`: finds records in the files of a data directory, without a broker.

Rules: parsing and printing only, `storage.offline` reads; a broker may be running on the same files. Exit codes: 0; 1 when
something is wrong with the files, or nothing was found; 2 for invalid arguments.
"""

from __future__ import annotations

import base64
import json
import os
from concurrent.futures import BrokenExecutor
from typing import Any

import click

from broker.commands.log_search import search
from protocol.records.batch import NO_TIMESTAMP
from runtime.clock import SystemClock
from runtime.command_line import parsing
from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.command_line.failure import Failure, InvalidUse
from runtime.command_line.group import Commands
from runtime.command_line.output import print_problem, print_result
from runtime.command_line.progress import Progress
from runtime.disk.os_filesystem import OsFileSystem
from runtime.texts import BEYOND_CALENDAR, calendar_text, count_text, size_text, visible, visible_json
from storage.offline.log_find import Match, Query, Task, plan

_STOPPED = "; stopped at --limit {}, there may be more"


def _header(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, bytes | None] | None:
    if text is None:
        return None
    name, separator, value = text.partition("=")
    return name, os.fsencode(value) if separator else None


def _hex(_context: click.Context, _parameter: click.Parameter, text: str | None) -> bytes | None:
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} has not two hexadecimal digits for each byte") from None


def _time_ms(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    return None if text is None else parsing.time_ms(text, parameter.opts[0], SystemClock().wall_ms())


@click.group("log", cls=Commands)
def command() -> None:
    """Records in the files of a data directory."""


@command.command("find")
@click.argument("paths", nargs=-1, required=True, metavar="DIRECTORY...")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="only of this topic; may be repeated")
@click.option("--partition", type=int, metavar="NUMBER", help="only of this partition")
@click.option("--key", help="the whole key, as UTF-8")
@click.option("--key-hex", metavar="HEX", callback=_hex, help="the whole key, in hexadecimal")
@click.option("--header", metavar="NAME[=VALUE]", callback=_header, help="a header of this name, and this value")
@click.option(
    "--from",
    "from_ms",
    metavar="TIME",
    callback=_time_ms,
    help="this time or later: 2026-01-31T12:00:00 (UTC unless it names a zone), ms since 1970, 1h for an hour ago",
)
@click.option("--to", "to_ms", metavar="TIME", callback=_time_ms, help="before this time")
@click.option("--limit", type=click.IntRange(1), default=100, metavar="COUNT", help="stop behind so many [100]")
@click.option(
    "--value-bytes", type=click.IntRange(1), default=1024, metavar="BYTES", help="show so much of a value [1024]"
)
@click.option("--json", "as_json", is_flag=True, help="a JSON object a line, with file and position")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, metavar="COUNT", help="processes at once")
@click.option("--no-index", is_flag=True, help="read every segment from its start")
def find(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    partition: int | None,
    key: str | None,
    key_hex: bytes | None,
    limit: int,
    as_json: bool,
    jobs: int,
    no_index: bool,
    **query: Any,
) -> int:
    """Find records by key, header or time, without a consumer.

    Scans segments in parallel; a broker may be running. DIRECTORY is a log directory, or the folder of a partition. Records
    must fit all that is given.
    """
    if key is not None and key_hex is not None:
        raise click.UsageError("--key and --key-hex do not go together")
    wanted = Query(key=key_hex if key is None else os.fsencode(key), use_index=not no_index, **query)
    problems: list[str] = []
    try:
        tasks = list(plan(OsFileSystem(), paths, wanted, problem=problems.append, topics=topics, partition=partition))
    except OSError as error:
        raise InvalidUse(f"{error.filename}: {error.strerror}") from None
    for problem in problems:
        print_problem(problem)
    try:
        return _search(tasks, limit, jobs, as_json=as_json, has_problems=bool(problems))
    except BrokenExecutor:
        raise Failure(
            "a process of the search was ended from outside, probably for want of memory; try --jobs 1"
        ) from None


def _search(tasks: list[Task], limit: int, jobs: int, *, as_json: bool, has_problems: bool) -> int:
    show = _json_line if as_json else _line
    shown = searched = scanned_bytes = 0
    is_stopped = False
    progress = Progress("read", None, SystemClock(), size_text)
    for found in search(tasks, max(1, min(jobs, len(tasks)))):
        matches = found.matches[: limit - shown]
        for match in matches:
            print_result(show(match))
        for problem in found.problems:
            has_problems = True
            print_problem(problem)
        shown += len(matches)
        searched += found.following is None
        scanned_bytes += found.scanned_bytes
        progress.show(scanned_bytes, f"{searched} of {len(tasks)} files")
        if shown == limit:
            is_stopped = len(matches) < len(found.matches) or searched < len(tasks)
            searched += found.following is not None  # in part
            break
    print_problem(_summary(tasks[:searched], shown) + (_STOPPED.format(limit) if is_stopped else ""))
    return EXIT_FAILED if has_problems or not shown else 0


def _summary(searched: list[Task], shown: int) -> str:
    folders = len({task.directory for task in searched})
    segments, partitions = count_text(len(searched), "segment"), count_text(folders, "partition")
    return f"{count_text(shown, 'record')} found in {segments} of {partitions}"


def _line(match: Match) -> str:
    headers = ",".join(
        visible(name) if value is None else f"{visible(name)}={_text(value)}" for name, value in match.headers
    )
    cut = "..." if match.value is not None and len(match.value) < match.value_size else ""
    return (
        f"{match.topic}-{match.partition} offset: {match.offset} timestamp: {match.timestamp} ({_time(match.timestamp)}) "
        f"key: {_text(match.key)} headers: [{headers}] value: {_text(match.value)}{cut}"
    )


def _json_line(match: Match) -> str:
    row = {
        "topic": match.topic,
        "partition": match.partition,
        "offset": match.offset,
        "timestamp": match.timestamp,
        "key": _json_text(match.key),
        "headers": [[name, _json_text(value)] for name, value in match.headers],
        "value": _json_text(match.value),
        "valueSize": match.value_size,
        "file": match.path,
        "position": match.position,
    }
    return visible_json(json.dumps(row, ensure_ascii=False))


def _time(timestamp_ms: int) -> str:
    return "none" if timestamp_ms == NO_TIMESTAMP else calendar_text(timestamp_ms) or BEYOND_CALENDAR


def _text(content: bytes | None) -> str:
    """Return the text on one line, as a terminal shows it and does not obey it."""
    return "null" if content is None else visible(content.decode("utf-8", "backslashreplace"))


def _json_text(content: bytes | None) -> object:
    """Return text if it is UTF-8, else {"base64": ...}."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
