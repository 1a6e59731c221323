"""The options of the jobs: flags, or a TOML file with the flags' names, and the checks that need no Spark.

Rules: standard library only. Every refusal says what is valid, and comes before Spark starts.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import click

from barnabas.spark.command_line import SystemClock, did_you_mean, duration_or_none, time_ms

DEFAULT_RECORDS_PER_BATCH = 1_000_000
AVAILABLE_NOW = "available-now"
Options = SimpleNamespace
"""The values of a job's options, by their names."""


class InvalidOption(ValueError):
    """An option, or two together, cannot be used; the text says what is valid."""


def option(*names: str, **more: Any) -> click.Option:
    """Return an option whose help shows its default."""
    return click.Option(names, show_default=more.get("default") != "", **more)


def settings_of(command: click.Command, table: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the defaults of options that a table of settings stands for. Raises InvalidOption."""
    flags = {flag[2:]: each for each in command.params for flag in each.opts if flag.startswith("--")}
    found: dict[str, Any] = {}
    for name, value in table.items():
        flag = name.replace("_", "-")
        if flag not in flags:
            raise InvalidOption(f"{source}: unknown option {name}{did_you_mean(flag, flags)}")
        each = flags[flag]
        if isinstance(value, Mapping) and value:
            raise InvalidOption(f"{source}: {name} is a table; valid is a text, a number, true, false or a list")
        if each.multiple and value is not None:
            found[str(each.name)] = [str(one) for one in (value if isinstance(value, list | tuple) else [value])]
        elif isinstance(value, list | tuple):
            is_listed = getattr(each.type, "func", None) is listed_names
            found[str(each.name)] = _csv_line(value) if is_listed else ",".join(map(str, value))
        elif value is not None:
            found[str(each.name)] = value if isinstance(value, bool) else str(value)
    return found


def _read_file(context: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    """Take the settings of a TOML file for the defaults."""
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            context.default_map = settings_of(context.command, tomllib.load(file), path)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise click.BadParameter(f"{path} is no TOML file: {error}") from None
    except InvalidOption as error:
        raise click.UsageError(str(error)) from None


POSITIVE = click.IntRange(1)


def positive_number(text: str) -> float:
    """Parse a number above zero, such as 0.5 or 20."""
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) is None or not float(text):
        raise click.BadParameter(f"{text!r} is not a number above zero, such as 0.5 or 20")
    return float(text)


def servers(text: str) -> str:
    """Parse addresses, and return them without blanks."""
    addresses = [address.strip() for address in text.split(",") if address.strip()]
    if not addresses:
        raise click.BadParameter("no broker is named; valid is host:port,host:port")
    for address in addresses:
        host, _, number = address.rpartition(":")
        if not host or not number.isdigit() or not 0 < int(number) <= 65535:
            raise click.BadParameter(f"{address!r} is not host:port")
    return ",".join(addresses)


def topics(text: str) -> str:
    """Parse topic names that commas separate."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("no topic is named; valid is name,name")
    for name in names:
        topic(name)
    return ",".join(dict.fromkeys(names))


def topic(text: str) -> str:
    """Parse a topic name."""
    if re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) is None or text in (".", ".."):
        raise click.BadParameter(f"{text!r} is no topic name: letters, digits, '.', '_' and '-', up to 249")
    return text


def listed_names(text: str) -> list[str]:
    """Parse names that commas separate. One that has a comma itself stands in double quotes, as in a CSV file. No text names
    nothing."""
    if not text:
        return []
    try:
        names = [name for row in csv.reader([text], strict=True) for name in row if name]
    except csv.Error:
        names = []
    if not names:
        raise click.BadParameter(f'{text!r} names nothing; valid is name,name or "name,with comma",name')
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
    """Parse a duration in Spark's form (`30 seconds`) or that of all commands (`30s`, `1h`, `PT1H30M`), to Spark's."""
    if re.fullmatch(r"[1-9][0-9]{0,8} (second|minute|hour|day)s?", text):
        return text
    found_ms = duration_or_none(text, "")
    if not found_ms or found_ms % 1000:
        raise click.BadParameter(f"{text!r} is not a duration such as '30 seconds' or '1 hour', 30s or 1h")
    return f"{found_ms // 1000} seconds"


def trigger(text: str) -> str:
    """Parse `available-now` or a duration."""
    try:
        return text if text == AVAILABLE_NOW else duration(text)
    except click.BadParameter:
        raise click.BadParameter(f"{text!r} is not {AVAILABLE_NOW} or a duration such as '10 seconds'") from None


def starting_offsets(text: str) -> str:
    """Parse `earliest`, `latest`, or a time, to milliseconds since the epoch."""
    if text in ("earliest", "latest"):
        return text
    try:
        found_ms = time_ms(text, "", SystemClock().wall_ms())
    except click.BadParameter:
        raise click.BadParameter(f"{text!r} is not earliest, latest or a time") from None
    if found_ms < 0:
        raise click.BadParameter(f"{text!r} is before 1970")
    return str(found_ms)


def client_settings(path: str) -> dict[str, str]:
    """Read a properties file as options of the source; without one there are none."""
    if not path:
        return {}
    from barnabas.spark.client.settings_file import options_of  # noqa: PLC0415  only with such a file

    try:
        return options_of(path)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


COMMON_OPTIONS = (
    option("--file", metavar="FILE", is_eager=True, expose_value=False, callback=_read_file,
           help="a TOML file with these options; an option of the command line overrides it"),
    option("--bootstrap-servers", "--bootstrap-server", "-b", "bootstrap_servers", type=servers, default="localhost:9092",
           metavar="HOST:PORT[,...]", help="the brokers"),
    option("--command-config", type=client_settings, default="", metavar="FILE",
           help="properties file with settings of the Kafka client, such as security.protocol"),
    option("--connector", is_flag=True, help="use Spark's own Kafka connector, a jar, in place of the Python source"),
    option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT",
           help="serve the job's metrics in Prometheus form at http://127.0.0.1:PORT/metrics"),
    option("--quiet", is_flag=True, help="print no progress"),
)  # fmt: skip
"""Of every job."""
LOSS_OPTION = option(
    "--tolerate-loss", is_flag=True,
    help="continue when records were deleted before the job read them, and read a time beyond Spark's as null; without this "
         "option the job fails",
)  # fmt: skip
"""Of a job that reads topics."""
STREAM_OPTIONS = (
    option("--checkpoint", type=folder, required=True, metavar="FOLDER",
           help="where the job remembers its progress; keep it, and give each job its own"),
    option("--trigger", type=trigger, default="10 seconds", metavar="WHEN",
           help=f"{AVAILABLE_NOW}: process the existing records and end; '10 seconds': process a batch at this interval until "
                "a signal stops the job"),
    option("--starting-offsets", type=starting_offsets, default="earliest", metavar="WHERE",
           help="where the first start begins: earliest, latest or a time (2026-01-31T10:00:00Z)"),
    option("--max-offsets-per-trigger", type=POSITIVE, default=DEFAULT_RECORDS_PER_BATCH, metavar="COUNT",
           help="the largest number of records in one batch"),
    LOSS_OPTION,
)  # fmt: skip
"""Of a job that reads topics as a stream."""
