"""`barnabas dump-log` and `barnabas log find`: they pass their options to `storage.offline`, and print the result.

Rules: parsing and printing only; no broker is started, and one may be running on the same files. Exit codes: 0; 1 when
something is wrong with the files, or nothing was found; 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import base64
import json
import signal
from concurrent.futures import BrokenExecutor

from broker.commands.log_options import DEFAULT_DECODER, DUMP
from broker.commands.log_search import search
from broker.commands.output import print_problem, print_result, results_have_their_own_place, run_command
from broker.commands.progress import ProgressLine
from protocol.records.batch import NO_TIMESTAMP
from runtime.clock import SystemClock
from runtime.disk.os_filesystem import OsFileSystem
from runtime.texts import BEYOND_CALENDAR, calendar_text, count_text, visible, visible_json
from storage.offline.dump import Dump, DumpOptions
from storage.offline.dump_text import Decoder, class_texts, current_decoder, offsets_texts, transaction_texts
from storage.offline.log_find import Match, Query, Task, plan

NOTHING_FOUND = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_STOPPED = "; stopped at --limit {}, there may be more"


def run(options: argparse.Namespace) -> int:
    """Run the command `options.command`, and return the exit code."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # an exception ends the other processes of a search, too
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run_command(lambda: _dump(options) if options.command == DUMP else _find(options))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenExecutor:
        print_problem(
            "barnabas: a process of the search was ended from outside, probably for want of memory; try --jobs 1"
        )
        return 1


# --- dump-log ---


class _UsageError(Exception):
    """Invalid options; its text is printed."""


def _dump(options: argparse.Namespace) -> int:
    try:
        paths = [path.strip() for files in options.files for path in files.split(",") if path.strip()]
        if not paths:
            raise _UsageError("--files names no file")
        decoder, notes = _decoder(options)
    except _UsageError as error:
        print_problem(f"barnabas: {error}")
        return EXIT_USAGE
    prints_data = (
        options.print_data_log
        or options.offsets_decoder
        or options.transaction_log_decoder
        or options.key_decoder_class is not None
        or options.value_decoder_class is not None
    )
    # Where the dump itself goes to the same place, it shows how far it is.
    dumping = _DumpProgress(ProgressLine(SystemClock(), is_shown=results_have_their_own_place()))
    filesystem = OsFileSystem()
    dumped = Dump(
        filesystem,
        DumpOptions(
            deep_iteration=options.deep_iteration or prints_data,
            print_data_log=prints_data,
            verify_index_only=options.verify_index_only,
            index_sanity_check=options.index_sanity_check,
            max_bytes=options.max_bytes,
            skip_record_metadata=options.skip_record_metadata,
            decoder=decoder,
            log_notes=notes,
        ),
        print_result,
        dumping.print_problem,
        dumping.show,
    )
    for path in paths:
        dumped.path(path)
    dumping.line.clear()
    return 1 if dumped.finish() else 0


class _DumpProgress:
    """Adds up what was dumped of each file."""

    def __init__(self, line: ProgressLine) -> None:
        self.line = line
        self._files = self._bytes_of_files = self._position = 0

    def show(self, _path: str, position: int) -> None:
        if not position:
            self._files += 1
            self._bytes_of_files += self._position
        self._position = position
        self.line.show(self._files, self._bytes_of_files + position)

    def print_problem(self, text: str) -> None:
        self.line.clear()
        print_problem(text)


def _decoder(options: argparse.Namespace) -> tuple[Decoder, tuple[str, ...]]:
    """Return (the decoder that the options select, warnings to print). Raises _UsageError."""
    if options.offsets_decoder:
        return offsets_texts, ()
    if options.transaction_log_decoder:
        return transaction_texts, ()
    if options.cluster_metadata_decoder:
        raise _UsageError("--cluster-metadata-decoder is not supported: this broker keeps no KRaft metadata log")
    if options.remote_log_metadata_decoder:
        raise _UsageError("--remote-log-metadata-decoder is not supported: this broker keeps no remote segments")
    names, notes = [], []
    for kind, given in (("value", options.value_decoder_class), ("key", options.key_decoder_class)):
        name = current_decoder(given or DEFAULT_DECODER)
        if name is None:
            raise _UsageError(
                f"--{kind}-decoder-class {given} is not supported: this command runs no Java; there are "
                "org.apache.kafka.tools.api.StringDecoder, IntegerDecoder and LongDecoder"
            )
        if given and given != name:
            notes.append(f"{given} is deprecated. Please use {name} instead")
        names.append(name)
    return class_texts(key=names[1], value=names[0]), tuple(notes)


# --- log find ---


def _find(options: argparse.Namespace) -> int:
    query = Query(
        key=options.key,
        header=options.header,
        from_ms=options.from_ms,
        to_ms=options.to_ms,
        value_bytes=options.value_bytes,
        use_index=options.use_index,
    )
    problems: list[str] = []
    try:
        tasks = list(
            plan(
                OsFileSystem(), options.paths, query,
                problem=problems.append, topics=options.topic or (), partition=options.partition,
            )
        )  # fmt: skip
    except OSError as error:
        print_problem(f"barnabas: {error.filename}: {error.strerror}")
        return EXIT_USAGE
    for problem in problems:
        print_problem(problem)
    show = _json_line if options.json else _line
    shown = searched = scanned_bytes = 0
    is_stopped, has_problems = False, bool(problems)
    line = ProgressLine(SystemClock(), len(tasks))
    for found in search(tasks, max(1, min(options.jobs, len(tasks)))):
        matches = found.matches[: options.limit - shown]
        if matches or found.problems:
            line.clear()
        for match in matches:
            print_result(show(match))
        for problem in found.problems:
            has_problems = True
            print_problem(problem)
        shown += len(matches)
        searched += found.following is None
        scanned_bytes += found.scanned_bytes
        line.show(searched, scanned_bytes)
        if shown == options.limit:
            is_stopped = len(matches) < len(found.matches) or searched < len(tasks)
            searched += found.following is not None  # in part
            break
    line.clear()
    print_problem(_summary(tasks[:searched], shown) + (_STOPPED.format(options.limit) if is_stopped else ""))
    return NOTHING_FOUND if has_problems or not shown else 0


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
