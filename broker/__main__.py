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
from broker.commands.output import print_problem, run_command
from broker.commands.users_options import USERS, add_users_command
from broker.observability.logging_setup import report_refusal, set_up_logging
from broker.start_options import VERSION, StartOptions
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.sources import read_properties
from runtime.clock import SystemClock
from runtime.os_filesystem import OsFileSystem

EXIT_USAGE = 2
CREATE_TOPICS_VARIABLE = "KAFKA_CREATE_TOPICS"

_EPILOG = """Settings have Apache Kafka's names. Strongest first: --override, environment variables (KAFKA_LOG_DIRS is
log.dirs: '.' becomes '_', '_' becomes '__', '-' becomes '___'), the properties file. `barnabas settings` lists them."""


def main(arguments: Sequence[str] | None = None, others: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run a command of the server; `others` are those that are run elsewhere, by name, and listed here."""
    started_ms = SystemClock().monotonic_ms()
    parser = _parser(others)
    options = parser.parse_args(arguments)
    if options.command == "settings":
        return run_command(lambda: _settings_command(options))
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
        settings = _settings(options.properties, _start_overrides(options), os.environ)
        set_up_logging(settings.barnabas_log_level, settings.barnabas_log_format)
        topics = [topic for text in options.topic for topic in parse_topics(text)]
        topics += parse_topics(os.environ.get(CREATE_TOPICS_VARIABLE, ""))
        start = StartOptions(tuple(topics), options.banner, options.ready_fd, options.lifeline_fd, options.discard)
        from broker import process  # noqa: PLC0415  the server is loaded once the settings are known to be good

        return process.run(settings, start, started_ms)
    except ConfigError as error:
        report_refusal(error.line)
        return EXIT_USAGE


def _start_overrides(options: argparse.Namespace) -> list[str]:
    """Return the overrides of settings, with the options that are short for one."""
    given = (("barnabas.log.level", options.log_level), ("barnabas.log.format", options.log_format))
    return [*options.override, *(f"{name}={value}" for name, value in given if value is not None)]


def _settings_command(options: argparse.Namespace) -> int:
    try:
        settings = _settings(options.properties, options.override, os.environ)
    except ConfigError as error:
        print_problem(f"barnabas: {error.line}")
        return EXIT_USAGE
    from broker.commands import settings_command  # noqa: PLC0415  no broker needs it

    return settings_command.run(settings, all_of_them=options.all)


def _parser(others: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="barnabas", description="A broker compatible with Apache Kafka.", epilog=_EPILOG, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"barnabas {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    start = commands.add_parser("start", help="run a broker", epilog=_EPILOG, allow_abbrev=False)
    _add_sources(start)
    start.add_argument(
        "--topic", action="append", default=[], metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="a topic that is created at the start when it is missing; may be repeated",
    )  # fmt: skip
    start.add_argument(
        "--log-level", metavar="LEVEL[,LOGGER=LEVEL...]", help="what is logged to stderr (barnabas.log.level)"
    )
    start.add_argument("--log-format", metavar="FORMAT", help="auto, terminal, text or json (barnabas.log.format)")
    start.add_argument("--no-banner", dest="banner", action="store_false", help="print no banner")
    # For programs that start a broker as their child.
    start.add_argument("--ready-fd", type=int, default=-1, help=argparse.SUPPRESS)
    start.add_argument("--lifeline-fd", type=int, default=-1, help=argparse.SUPPRESS)
    start.add_argument("--discard", help=argparse.SUPPRESS)
    settings = commands.add_parser(
        "settings", help="list the settings, with the values of a start", epilog=_EPILOG, allow_abbrev=False
    )
    _add_sources(settings)
    settings.add_argument("--all", action="store_true", help="also those without effect")
    add_log_commands(commands)
    add_users_command(commands)
    for name, help_text in others.items():
        commands.add_parser(name, help=help_text, add_help=False)
    # `barnabas.cli` runs it; here it is only listed.
    commands.add_parser("pipeline", help='Spark jobs on topics (pip install "barnabas[spark]")', add_help=False)
    return parser


def _add_sources(command: argparse.ArgumentParser) -> None:
    command.add_argument("properties", nargs="?", help="a server.properties file")
    command.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated"
    )


def _settings(path: str | None, overrides: Sequence[str], environment: Mapping[str, str]) -> BrokerSettings:
    """Raises ConfigError."""
    properties: dict[str, str] = {}
    if path is not None:
        try:
            with open(path, encoding="latin-1") as file:  # as Java reads properties; other characters are \\u escapes
                properties = read_properties(file.read())
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
        except ValueError as error:
            raise ConfigError(f"cannot read {path}: {error}") from error
    given: dict[str, str] = {}
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"--override {override} is not of the form name=value")
        given[name.strip()] = value
    return BrokerSettings.from_sources(properties, environment, given, OsFileSystem())


if __name__ == "__main__":
    sys.exit(main())
