"""`barnabas web`: a page to look at a cluster, and HTTP to read and write records.

Rules: parsing only; `web.process` runs it. Exit codes: 0 after a stop, 1 when it could not start, 2 for wrong options and
settings.
"""

from __future__ import annotations

import click

from client.settings.command_line import DEFAULTS, client_properties
from client.settings.parsing import parse_client
from client.settings.values import SettingsError
from config.errors import ConfigError
from config.web import WebSettings
from runtime.command_line.exit_codes import EXIT_USAGE
from runtime.command_line.interrupts import INTERRUPTS
from runtime.command_line.output import print_problem


@click.command("web")
@click.argument("properties", required=False, type=click.Path())
@click.option("--bootstrap-server", "--bootstrap-servers", "-b", "bootstrap_server", metavar="HOST:PORT[,...]",
              help=f"brokers to ask first [{DEFAULTS.bootstrap_servers}]")  # fmt: skip
@click.option("--port", type=int, metavar="PORT", help="the port of the page; 0 is a free one (sets barnabas.web.port)")
@click.option("--override", multiple=True, metavar="NAME=VALUE", help="set a setting; may be repeated")
@click.option("--ready-fd", type=int, default=-1, hidden=True, help="where it says in JSON that it serves")
def command(
    properties: str | None, bootstrap_server: str | None, port: int | None, override: tuple[str, ...], ready_fd: int
) -> int:
    """Serve a page about any Kafka cluster, and Confluent's REST interfaces.

    PROPERTIES has barnabas.web.* and the settings of a client, such as bootstrap.servers and security.protocol.
    """
    INTERRUPTS.leave()  # the server stops in order
    try:
        given = dict(client_properties(properties, None))
        for each in override:
            name, separator, value = each.partition("=")
            if not separator:
                raise ConfigError(f"--override {each}: NAME=VALUE is needed")
            given[name] = value
        if port is not None:
            given["barnabas.web.port"] = str(port)
        settings = WebSettings(given)
        client = parse_client(given, DEFAULTS, servers=bootstrap_server, needs_user=False)
    except (ConfigError, SettingsError) as error:
        print_problem(f"barnabas: {error}")
        return EXIT_USAGE
    from web import process  # noqa: PLC0415  the server is loaded once the settings are known to be good

    return process.run(settings, client, ready_fd)
