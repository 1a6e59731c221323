"""The sources of settings on the command line, and the options of `barnabas settings`.

Rules: parsing only, and reading of the properties file; `broker.commands.settings_command` does what they say.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.observability.logging_setup import AUTO
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.sources import read_properties, settings_in_environment
from runtime.disk.os_filesystem import OsFileSystem

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  it has no other name

PROPERTIES_SUFFIX = ".properties"
LOG_FORMAT = "barnabas.log.format"


def add_settings_command(commands: Commands, epilog: str) -> None:
    command = commands.add_parser(
        "settings",
        help="list settings with the values that a broker would start with, or check a file",
        epilog=epilog,
        allow_abbrev=False,
    )
    command.add_argument(
        "words", nargs="*", metavar="FILE|WORD",
        help="a server.properties file (with a / in its name, or .properties at its end); any other word selects the settings "
        "with it in their names, also those without effect",
    )  # fmt: skip
    add_override(command)
    command.add_argument("--all", action="store_true", help="list the settings without effect, too")
    command.add_argument(
        "--check", metavar="FILE",
        help="print everything that is wrong with a server.properties file, and end with 1 if a broker would not start with "
        "it or a name is unknown",
    )  # fmt: skip
    command.add_argument("--json", action="store_true", help="print JSON")


def add_override(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a setting to a value; may be repeated",
    )


def settings_of(path: str | None, overrides: Sequence[str], environment: Mapping[str, str]) -> BrokerSettings:
    """Return the settings of a start. Raises ConfigError."""
    properties = {} if path is None else properties_from(path, read_text(path))
    return BrokerSettings.from_sources(properties, environment, given_overrides(overrides), OsFileSystem())


def log_format_of(path: str | None, overrides: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the barnabas.log.format that a start asks for, also where its other settings are refused; else the default."""
    given: dict[str, str] = {}
    with suppress(ConfigError):
        given |= {} if path is None else properties_from(path, read_text(path))
    given |= settings_in_environment(environment, [LOG_FORMAT])
    with suppress(ConfigError):
        given |= given_overrides(overrides)
    if LOG_FORMAT in given:
        with suppress(ConfigError):
            return BrokerSettings.from_sources({LOG_FORMAT: given[LOG_FORMAT]}, {}, {}).barnabas_log_format
    return AUTO


def read_text(path: str) -> str:
    """Raises ConfigError."""
    try:
        with open(path, encoding="latin-1") as file:  # as Java reads properties; other characters are \\u escapes
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


def properties_from(path: str, text: str) -> dict[str, str]:
    """Parse the text of a file. Raises ConfigError."""
    try:
        return read_properties(text)
    except ValueError as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def given_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Raises ConfigError."""
    given: dict[str, str] = {}
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"--override {override} is not of the form name=value")
        given[name.strip()] = value
    return given
