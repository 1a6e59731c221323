"""The command line of the server: `barnabas start`, `barnabas settings`, `barnabas dump-log`,
`barnabas log`, `barnabas users`, `--help`, `--version`.

Rules: parsing and printing only; `broker.process` runs the broker. Exit codes: 0 after a clean stop, 1 when the broker could
not start or continue, 2 for invalid arguments and settings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from broker.cluster.topics_at_start import parse_topics
from broker.commands.log_options import LOG_COMMANDS, add_log_commands
from broker.commands.output import run_command
from broker.commands.settings_options import add_override, add_settings_command, log_format_of, settings_of
from broker.commands.suggesting_parser import SuggestingParser
from broker.commands.users_options import USERS, add_users_command
from broker.observability.logging_setup import report_refusal, set_up_logging
from broker.start_options import VERSION, StartOptions
from config.errors import ConfigError
from config.unknown_settings import unknown_settings
from runtime.clock import SystemClock

EXIT_USAGE = 2
CREATE_TOPICS_VARIABLE = "KAFKA_CREATE_TOPICS"

_EPILOG = """Settings have the names that they have in Apache Kafka. The broker takes the value of a setting from the first of
these that has one: --override, an environment variable, the properties file. The variable KAFKA_LOG_DIRS sets log.dirs: write
'_' for '.', '__' for '_', and '___' for '-'. `barnabas settings` lists all settings."""

_EXIT_CODES = """The command ends with exit code 0 after a stop, 1 when the broker could not start or could not continue, and 2
when an option or a setting is wrong."""


def main(arguments: Sequence[str] | None = None, others: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run a command of the server; `others` are those that are run elsewhere, by name, and listed here."""
    started_ms = SystemClock().monotonic_ms()
    parser = command_parser(others)
    options = parser.parse_args(arguments)
    if options.command == "settings":
        from broker.commands import settings_command  # noqa: PLC0415  no broker needs it

        return run_command(lambda: settings_command.run(options))
    if options.command in LOG_COMMANDS:
        from broker.commands import log_commands  # noqa: PLC0415  only these commands need it

        return log_commands.run(options)
    if options.command == USERS:
        from broker.commands import users_command  # noqa: PLC0415  no broker needs it

        return run_command(lambda: users_command.run(options))
    if options.command != "start":
        parser.print_help()
        return EXIT_USAGE
    set_up_logging(())
    try:
        settings = settings_of(options.properties, _start_overrides(options), os.environ)
        set_up_logging(settings.barnabas_log_level, settings.barnabas_log_format)
        unknown = unknown_settings(settings) if options.refuse_unknown else ()
        if unknown:
            raise ConfigError("; ".join(map(str, unknown)))
        topics = [topic for text in options.topic for topic in parse_topics(text)]
        topics += parse_topics(os.environ.get(CREATE_TOPICS_VARIABLE, ""))
        start = StartOptions(tuple(topics), options.banner, options.ready_fd, options.lifeline_fd, options.discard)
        from broker import process  # noqa: PLC0415  the server is loaded once the settings are known to be good

        return process.run(settings, start, started_ms)
    except ConfigError as error:
        set_up_logging((), log_format_of(options.properties, _start_overrides(options), os.environ))
        report_refusal(error.line)
        return EXIT_USAGE


def _start_overrides(options: argparse.Namespace) -> list[str]:
    """Return the overrides of settings, with the options that are short for one."""
    given = (("barnabas.log.level", options.log_level), ("barnabas.log.format", options.log_format))
    return [*options.override, *(f"{name}={value}" for name, value in given if value is not None)]


def command_parser(others: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return what reads the arguments; `others` are commands that are only listed, by name."""
    parser: argparse.ArgumentParser = SuggestingParser(
        prog="barnabas",
        description="Run a broker that is compatible with Apache Kafka, and administer clusters of both.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"barnabas {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    start = commands.add_parser("start", help="run a broker", epilog=f"{_EPILOG} {_EXIT_CODES}", allow_abbrev=False)
    start.add_argument("properties", nargs="?", help="a server.properties file")
    add_override(start)
    start.add_argument(
        "--topic", action="append", default=[], metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="create this topic at the start if it is missing; may be repeated",
    )  # fmt: skip
    start.add_argument(
        "--log-level",
        metavar="LEVEL[,LOGGER=LEVEL...]",
        help="log messages of this level and above to stderr (sets barnabas.log.level)",
    )
    start.add_argument(
        "--log-format",
        metavar="FORMAT",
        help="the form of log lines: auto, terminal, text or json (sets barnabas.log.format)",
    )
    start.add_argument(
        "--no-banner", dest="banner", action="store_false", help="do not print the banner when the broker is ready"
    )
    # For programs that start a broker as their child.
    start.add_argument("--ready-fd", type=int, default=-1, help=argparse.SUPPRESS)
    start.add_argument("--lifeline-fd", type=int, default=-1, help=argparse.SUPPRESS)
    start.add_argument("--discard", help=argparse.SUPPRESS)
    start.add_argument("--refuse-unknown", action="store_true", help=argparse.SUPPRESS)
    add_settings_command(commands, _EPILOG)
    add_log_commands(commands)
    add_users_command(commands)
    for name, help_text in others.items():
        commands.add_parser(name, help=help_text, add_help=False)
    # `barnabas.cli` runs it; here it is only listed.
    commands.add_parser("pipeline", help='run Spark jobs on topics (pip install ".[spark]" in a clone)', add_help=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())
