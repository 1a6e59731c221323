"""Where the settings of a start come from: a properties file, the environment, `--override`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.sources import read_properties, settings_in_environment
from runtime.disk.os_filesystem import OsFileSystem
from runtime.log_setup import AUTO

PROPERTIES_SUFFIX = ".properties"
LOG_FORMAT = "barnabas.log.format"
SOURCES = """Settings have the names that they have in Apache Kafka. The broker takes the value of a setting from the first of
these that has one: --override, an environment variable, the properties file. The variable KAFKA_LOG_DIRS sets log.dirs: write
'_' for '.', '__' for '_', and '___' for '-'. `barnabas settings` lists all settings."""

override_option = click.option(
    "--override", multiple=True, metavar="NAME=VALUE", help="set a setting to a value; may be repeated"
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
