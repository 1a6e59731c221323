"""`barnabas relay run`, which is also `barnabas relay` without another word: brings records to their targets.

Rules: parsing only; `relay.process` runs it. Exit codes: 0 after a stop, 1 when the relay could not begin or go on, 2 for wrong
options and settings.
"""

from __future__ import annotations

import click

from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from client.settings.process_settings import settings_given
from client.settings.values import SettingsError
from config.errors import ConfigError
from config.relay import PREFIX, RelaySettings
from runtime.command_line.exit_codes import EXIT_USAGE
from runtime.command_line.interrupts import INTERRUPTS
from runtime.command_line.output import print_problem


@click.command("run")
@click.argument("properties", required=False, type=click.Path())
@click.option("--bootstrap-server", "--bootstrap-servers", "-b", "bootstrap_server", metavar="HOST:PORT[,...]",
              help="brokers to ask first [localhost:9092]")  # fmt: skip
@click.option("--override", multiple=True, metavar="NAME=VALUE", help="set a setting; may be repeated")
@click.option("--ready-fd", type=int, default=-1, hidden=True, help="where it says in JSON that it relays")
def command(properties: str | None, bootstrap_server: str | None, override: tuple[str, ...], ready_fd: int) -> int:
    """Bring records to their targets when they are due, in any Kafka cluster, by the rules of `barnabas relay rules`.

    PROPERTIES has barnabas.relay.* and the settings of a client, such as bootstrap.servers and security.protocol. A setting is
    taken from the first of these that has it: --override, an environment variable (KAFKA_BARNABAS_RELAY_NAME sets
    barnabas.relay.name), the file. Several of these processes share the work.
    """
    INTERRUPTS.leave()  # the relay stops in order
    try:
        given = settings_given(properties, override, RelaySettings.definitions, PREFIX)
        settings = RelaySettings(given)
        client = parse_client(given, DEFAULTS, servers=bootstrap_server)
    except (ConfigError, SettingsError) as error:
        print_problem(f"barnabas: {error}")
        return EXIT_USAGE
    from relay import process  # noqa: PLC0415  the relay is loaded once the settings are known to be good

    return process.run(settings, client, ready_fd)
