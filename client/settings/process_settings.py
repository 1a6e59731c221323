"""The settings of a process that is a client of a cluster: a file, environment variables, options.

Strongest first: an option `--override NAME=VALUE`, an environment variable (`KAFKA_BARNABAS_WEB_PORT` is
barnabas.web.port), the file. Variables count that name a setting of the process, or one of a client that has an effect.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from client.settings.command_line import client_properties
from client.settings.names import WITH_EFFECT
from client.settings.parsing import warnings_about
from config.errors import ConfigError
from config.sources import settings_in_environment
from runtime.command_line.output import print_problem


def settings_given(
    properties: str | None, overrides: Sequence[str], own: Collection[str], prefix: str
) -> dict[str, str]:
    """Return the settings of a start. `own` are the names of the process's settings, `prefix` is what they begin with. What is
    unknown, or has no effect, is told on standard error. Raises ConfigError, SettingsError."""
    file = client_properties(properties, None)
    options: dict[str, str] = {}
    for each in overrides:
        name, separator, value = each.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"--override {each} is not of the form name=value")
        options[name.strip()] = value
    of_clients = {name: text for name, text in {**file, **options}.items() if not name.startswith(prefix)}
    for warning in warnings_about(of_clients, tuple(own)):
        print_problem(f"barnabas: {warning}")
    known = (*own, *WITH_EFFECT)
    environment = settings_in_environment(os.environ, known)
    usable = {name: text for name, text in environment.items() if name in known or name.startswith(prefix)}
    return {**file, **usable, **options}
