"""The options by which every command names its cluster, and `--json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from client.settings.command_line import DEFAULTS, PROFILE_VARIABLE

Function = Callable[..., Any]


def cluster_options(*other_names: str) -> Callable[[Function], Function]:
    """The command's function is called with `bootstrap_server`, `command_config`, `profile` and `as_json`, and `client_config`,
    the file by one of the other names of --command-config."""
    options = (
        click.option("--bootstrap-server", "--bootstrap-servers", "-b", "bootstrap_server", metavar="HOST:PORT[,...]",
                     help=f"brokers to ask first [{DEFAULTS.bootstrap_servers}]"),
        click.option("--command-config", metavar="FILE", help="properties of a client, as of the kafka-*.sh tools"),
        click.option(*other_names, "client_config", hidden=True, help="other names of --command-config"),
        click.option("--profile", metavar="NAME", envvar=PROFILE_VARIABLE, help="a file in ~/.config/barnabas"),
        click.option("--json", "as_json", is_flag=True, help="print JSON"),
    )  # fmt: skip

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
