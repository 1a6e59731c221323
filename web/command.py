"""`barnabas web`: a page to look at a cluster, and HTTP to read and write records.

Rules: parsing only; `web.process` runs it. Exit codes: 0 after a stop, 1 when it could not start, 2 for wrong options and
settings.
"""

from __future__ import annotations

from dataclasses import replace

import click

from client.settings.command_line import DEFAULTS
from client.settings.parsing import PROTOCOL, parse_client
from client.settings.process_settings import settings_given
from client.settings.values import SettingsError
from config.errors import ConfigError
from config.web import PREFIX, WebSettings
from runtime.command_line.exit_codes import EXIT_USAGE
from runtime.command_line.interrupts import INTERRUPTS
from runtime.command_line.output import print_problem

PAGE_DEFAULTS = replace(DEFAULTS, api_timeout_ms=15_000)
"""Who looks at a page is told sooner than who has given a command that no broker answers."""


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

    PROPERTIES has barnabas.web.* and the settings of a client, such as bootstrap.servers and security.protocol. A setting is
    taken from the first of these that has it: --override, an environment variable (KAFKA_BARNABAS_WEB_PORT sets
    barnabas.web.port), the file.
    """
    INTERRUPTS.leave()  # the server stops in order
    try:
        given = settings_given(properties, override, WebSettings.definitions, PREFIX)
        if port is not None:
            given["barnabas.web.port"] = str(port)
        settings = WebSettings(given)
        client = parse_client(given, PAGE_DEFAULTS, servers=bootstrap_server, needs_user=False)
        settings.accepts_proxies_alone(has_login=given.get(PROTOCOL, "").strip().upper().startswith("SASL"))
        if settings.sampling:
            parse_client(settings.sampling, PAGE_DEFAULTS, servers=bootstrap_server)
    except (ConfigError, SettingsError) as error:
        print_problem(f"barnabas: {error}")
        return EXIT_USAGE
    from web import process  # noqa: PLC0415  the server is loaded once the settings are known to be good

    return process.run(settings, client, ready_fd)
