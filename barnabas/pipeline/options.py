"""The options of the jobs: flags, or a TOML file with the flags' names, and the checks that need no Spark.

Rules: standard library only. Every refusal says what is valid, and comes before Spark starts.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

DEFAULT_RECORDS_PER_BATCH = 1_000_000
AVAILABLE_NOW = "available-now"


class InvalidOption(ValueError):
    """An option, or two together, cannot be used; the text says what is valid."""


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, True, {}) or action.default == []:
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Parses flags after those of the file that `--file` names; a flag on the command line has precedence."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        given = self._with_file(args)
        words = sys.argv[1:] if given is None else given
        known = {flag for action in self._actions for flag in action.option_strings}
        for word in words:  # before argparse, which would name what is missing and not what is wrong
            if word.startswith("--") and word.partition("=")[0] not in known:
                self.error(self._unknown(word))
        options, unknown = self.parse_known_args(given, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return options

    def flags(self) -> dict[str, argparse.Action]:
        """Return the action of each long flag, without its hyphens."""
        actions = {flag: action for action in self._actions for flag in action.option_strings}
        return {flag[2:]: action for flag, action in actions.items() if flag.startswith("--") and flag != "--help"}

    def arguments_of(self, table: Mapping[str, Any], source: str) -> list[str]:
        """Return the flags that a table of settings stands for. Raises InvalidOption."""
        flags = self.flags()
        arguments: list[str] = []
        for name, value in table.items():
            flag = name.replace("_", "-")
            if flag not in flags:
                raise InvalidOption(f"{source}: {self._unknown(name)}")
            if value is None or value is False:
                continue
            if value is True:
                arguments.append(f"--{flag}")
            elif isinstance(value, list | tuple) and isinstance(flags[flag], argparse._AppendAction):  # noqa: SLF001
                arguments += [f"--{flag}={each}" for each in value]
            elif isinstance(value, list | tuple):
                joined = _csv_line(value) if flags[flag].type is listed_names else ",".join(map(str, value))
                arguments.append(f"--{flag}={joined}")
            elif isinstance(value, Mapping):
                raise InvalidOption(f"{source}: {name} is a table; valid is a text, a number, true, false or a list")
            else:
                arguments.append(f"--{flag}={value}")
        return arguments

    def _with_file(self, args: Sequence[str] | None) -> Sequence[str] | None:
        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        first.add_argument("--file")
        try:
            found, rest = first.parse_known_args(args)
        except argparse.ArgumentError:
            self.error("argument --file: expected the name of a file")
        if found.file is None:
            return args
        try:
            with open(found.file, "rb") as file:
                return [*self.arguments_of(tomllib.load(file), found.file), *rest]
        except OSError as error:
            self.error(f"argument --file: {found.file}: {error.strerror}")
        except tomllib.TOMLDecodeError as error:
            self.error(f"argument --file: {found.file} is no TOML file: {error}")
        except InvalidOption as error:
            self.error(str(error))

    def _unknown(self, name: str) -> str:
        flags = sorted(self.flags())
        near = difflib.get_close_matches(name.lstrip("-").partition("=")[0].replace("_", "-"), flags, 1)
        meant = f" (is --{near[0]} meant?)" if near else ""
        return f"unknown option {name}{meant}; valid are {', '.join('--' + flag for flag in flags)}"

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser(name: str, description: str) -> Parser:
    """Return a parser with the options that every job has."""
    made = Parser(
        prog=f"barnabas pipeline {name}",
        description=description,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--file", metavar="FILE", help="a TOML file with these options; an option of the command line overrides it"
    )
    made.add_argument("--bootstrap-servers", "--bootstrap-server", "-b", type=servers, default="localhost:9092",
                      metavar="HOST:PORT,...", help="the brokers")  # fmt: skip
    made.add_argument("--command-config", type=client_settings, default={}, metavar="FILE",
                      help="properties file with settings of the Kafka client, such as security.protocol")  # fmt: skip
    made.add_argument("--connector", action="store_true",
                      help="use Spark's own Kafka connector, a jar, in place of the Python source")  # fmt: skip
    made.add_argument("--metrics-port", type=port, metavar="PORT",
                      help="serve the job's metrics in Prometheus form at http://127.0.0.1:PORT/metrics")  # fmt: skip
    made.add_argument("--quiet", action="store_true", help="print no progress")
    return made


def add_stream_options(made: argparse.ArgumentParser) -> None:
    """Add the options of a job that reads topics as a stream."""
    made.add_argument("--checkpoint", type=folder, required=True, metavar="FOLDER",
                      help="where the job remembers its progress; keep it, and give each job its own")  # fmt: skip
    made.add_argument("--trigger", type=trigger, default="10 seconds", metavar="WHEN",
                      help=f"{AVAILABLE_NOW}: process the existing records and end; '10 seconds': process a batch at "
                           "this interval until a signal stops the job")  # fmt: skip
    made.add_argument("--starting-offsets", type=starting_offsets, default="earliest", metavar="WHERE",
                      help="where the first start begins: earliest, latest or a time (2026-01-31T10:00:00Z)")  # fmt: skip
    made.add_argument("--max-offsets-per-trigger", type=positive, default=DEFAULT_RECORDS_PER_BATCH, metavar="COUNT",
                      help="the largest number of records in one batch")  # fmt: skip
    add_loss_option(made)


def add_loss_option(made: argparse.ArgumentParser) -> None:
    """Add the option of a job that reads topics to go on where something cannot be read."""
    made.add_argument("--tolerate-loss", action="store_true",
                      help="continue when records were deleted before the job read them, and read a time beyond Spark's "
                           "as null; without this option the job fails")  # fmt: skip


def positive(text: str) -> int:
    """Parse a whole number above zero."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def positive_number(text: str) -> float:
    """Parse a number above zero, such as 0.5 or 20."""
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) is None or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero, such as 0.5 or 20")
    return float(text)


def port(text: str) -> int:
    """Parse a TCP port; 0 is a free one."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def servers(text: str) -> str:
    """Parse addresses, and return them without blanks."""
    addresses = [address.strip() for address in text.split(",") if address.strip()]
    if not addresses:
        raise argparse.ArgumentTypeError("no broker is named; valid is host:port,host:port")
    for address in addresses:
        host, _, number = address.rpartition(":")
        if not host or not number.isdigit() or not 0 < int(number) <= 65535:
            raise argparse.ArgumentTypeError(f"{address!r} is not host:port")
    return ",".join(addresses)


def topics(text: str) -> str:
    """Parse topic names that commas separate."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("no topic is named; valid is name,name")
    for name in names:
        topic(name)
    return ",".join(dict.fromkeys(names))


def topic(text: str) -> str:
    """Parse a topic name."""
    if re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) is None or text in (".", ".."):
        raise argparse.ArgumentTypeError(f"{text!r} is no topic name: letters, digits, '.', '_' and '-', up to 249")
    return text


def listed_names(text: str) -> list[str]:
    """Parse names that commas separate. One that has a comma itself stands in double quotes, as in a CSV file."""
    try:
        names = [name for row in csv.reader([text], strict=True) for name in row if name]
    except csv.Error:
        names = []
    if not names:
        raise argparse.ArgumentTypeError(f'{text!r} names nothing; valid is name,name or "name,with comma",name')
    return list(dict.fromkeys(names))


def _csv_line(names: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in environment


def folder(text: str) -> str:
    """Parse a folder on any file system that Spark knows; a relative one is on this machine, below the current folder."""
    if is_submitted() or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        return text
    return os.path.abspath(text)


def duration(text: str) -> str:
    """Parse a duration as Spark writes one: `30 seconds`, `1 minute`."""
    if re.fullmatch(r"[1-9][0-9]{0,8} (second|minute|hour|day)s?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as '30 seconds' or '1 hour'")
    return text


SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


def duration_s(text: str) -> int:
    """Return the seconds of what `duration` accepts."""
    count, unit = duration(text).split(" ")
    return int(count) * SECONDS[unit.removesuffix("s")]


def trigger(text: str) -> str:
    """Parse `available-now` or a duration."""
    if text == AVAILABLE_NOW:
        return text
    try:
        return duration(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not {AVAILABLE_NOW} or a duration such as '10 seconds'"
        ) from None


def starting_offsets(text: str) -> str:
    """Parse `earliest`, `latest`, or a time, to milliseconds since the epoch (UTC when it names no zone)."""
    if text in ("earliest", "latest"):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not earliest, latest or a time") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    if time.timestamp() < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970")
    return str(int(time.timestamp() * 1000))


def client_settings(path: str) -> dict[str, str]:
    """Read a properties file as options of the source."""
    from barnabas.spark.client.settings_file import options_of  # noqa: PLC0415  only with such a file

    try:
        return options_of(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
