"""The options of `barnabas dump-log` and `barnabas log find`; the commands themselves are in `broker.commands.log_commands`.

Rules: imports only argparse and the version, since every start of a broker imports this module.
Source: Kafka DumpLogSegments, whose options those of `dump-log` are.
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from broker.start_options import VERSION


class Commands(Protocol):
    """The result of `add_subparsers`, whose class has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser: ...


DUMP = "dump-log"
LOG = "log"
LOG_COMMANDS = (DUMP, LOG)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = "ms since 1970, or 2024-05-01T12:00:00 (UTC unless it names a zone)"
DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"


def add_log_commands(commands: Commands) -> None:
    _add_dump(commands)
    log = commands.add_parser(LOG, help="find records in the files of a data directory", allow_abbrev=False)
    _add_find(log.add_subparsers(dest="log_command", metavar="command", required=True))


def _add_dump(commands: Commands) -> None:
    dump = commands.add_parser(
        DUMP, help="print and verify the files of a log", allow_abbrev=False,
        description="Prints segments, indexes, snapshots and checkpoints, and says what is wrong with them.",
    )  # fmt: skip
    dump.add_argument(
        "--files", required=True, action="append", metavar="FILE,...",
        help="files, or folders: a partition's, or a whole log directory; may be repeated",
    )  # fmt: skip
    dump.add_argument("--deep-iteration", action="store_true", help="the records of each batch, too")
    dump.add_argument("--print-data-log", action="store_true", help="also keys and values (implies --deep-iteration)")
    dump.add_argument("--verify-index-only", action="store_true", help="compare indexes with logs, print no entries")
    dump.add_argument(
        "--index-sanity-check", action="store_true", help="only what a starting broker asks before it trusts an index"
    )
    dump.add_argument("--max-bytes", type=_not_negative, metavar="BYTES", help="read each .log no further than this")
    dump.add_argument(
        "--max-message-size", type=_positive, metavar="BYTES", help=argparse.SUPPRESS
    )  # Kafka's; not needed
    dump.add_argument("--skip-record-metadata", action="store_true", help="of records, keys and values alone")
    # Of several decoders the first in this order is used.
    dump.add_argument("--offsets-decoder", action="store_true", help="the log is of __consumer_offsets")
    dump.add_argument("--transaction-log-decoder", action="store_true", help="the log is of __transaction_state")
    dump.add_argument("--cluster-metadata-decoder", action="store_true", help=argparse.SUPPRESS)  # Kafka's; refused
    dump.add_argument("--remote-log-metadata-decoder", action="store_true", help=argparse.SUPPRESS)  # the same
    for kind in ("key", "value"):
        dump.add_argument(
            f"--{kind}-decoder-class", nargs="?", const=DEFAULT_DECODER, metavar="CLASS",
            help=f"what the {kind}s are: Apache Kafka's StringDecoder (the default), IntegerDecoder or LongDecoder",
        )  # fmt: skip
    dump.add_argument("--version", action="version", version=f"barnabas {VERSION}")


def _add_find(commands: Commands) -> None:
    find = commands.add_parser(
        "find", help="find records by key, header or time, without a consumer", allow_abbrev=False,
        description="Scans segments in parallel; a broker may be running. Records must fit all that is given.",
    )  # fmt: skip
    find.add_argument("paths", nargs="+", metavar="DIRECTORY", help="a log directory, or the folder of a partition")
    find.add_argument("--topic", action="append", metavar="NAME", help="only of this topic; may be repeated")
    find.add_argument("--partition", type=int, metavar="NUMBER", help="only of this partition")
    keys = find.add_mutually_exclusive_group()
    keys.add_argument("--key", type=os.fsencode, help="the whole key, as UTF-8")
    keys.add_argument("--key-hex", dest="key", type=_hex, metavar="HEX", help="the whole key, in hexadecimal")
    find.add_argument("--header", type=_header, metavar="NAME[=VALUE]", help="a header of this name, and this value")
    find.add_argument("--from", dest="from_ms", type=_time, metavar="TIME", help=f"this time or later: {_TIMES}")
    find.add_argument("--to", dest="to_ms", type=_time, metavar="TIME", help="before this time")
    find.add_argument("--limit", type=_positive, default=100, metavar="COUNT", help="stop behind so many (100)")
    find.add_argument(
        "--value-bytes", type=_positive, default=1024, metavar="BYTES", help="show so much of a value (1024)"
    )
    find.add_argument("--json", action="store_true", help="a JSON object a line, with file and position")
    find.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="COUNT", help="processes at once")
    find.add_argument("--no-index", dest="use_index", action="store_false", help="read every segment from its start")


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    return name, os.fsencode(value) if separator else None


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise _invalid(text, "two hexadecimal digits for each byte") from None


def _time(text: str) -> int:
    """Parse a time into ms since the epoch."""
    try:
        if text.lstrip("-").isdigit():
            return int(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(text, _TIMES) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _positive(text: str) -> int:
    return _whole(text, 1, "a whole number above 0")


def _not_negative(text: str) -> int:
    return _whole(text, 0, "a whole number, not below 0")


def _whole(text: str, least: int, valid: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise _invalid(text, valid) from None
    if number < least:
        raise _invalid(text, valid)
    return number


def _invalid(text: str, valid: str) -> argparse.ArgumentTypeError:
    """Return the error to raise: for other classes argparse prints the name of the function."""
    return argparse.ArgumentTypeError(f"{text!r} is not valid: {valid}")
