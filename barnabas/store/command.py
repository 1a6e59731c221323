"""`barnabas store`: runs a store server.

Rules: parsing only; `barnabas.store.process` runs it. Exit codes: 0 after a stop, 1 when it could not start or continue, 2 for
invalid options and settings.
"""

from __future__ import annotations

import click

from barnabas import __version__
from broker.commands.settings_sources import given_overrides, override_option, properties_from, read_text
from broker.observability.logging_setup import set_up_logging
from config.errors import ConfigError
from runtime.command_line.exit_codes import EXIT_USAGE
from runtime.command_line.interrupts import INTERRUPTS
from runtime.command_line.output import print_problem
from runtime.log_setup import AUTO

_ABOUT = """Settings have the names and defaults of ZooKeeper's zoo.cfg: dataDir, clientPort, clientPortAddress,
secureClientPort, tickTime, minSessionTimeout, maxSessionTimeout, maxClientCnxns, jute.maxbuffer, ssl.keyStore.*,
ssl.trustStore.*, ssl.clientAuth, superUser and DigestAuthenticationProvider.superDigest; barnabas.sasl.user.NAME=PASSWORD is a
user of SASL DIGEST-MD5. An option goes before --override, and that before PROPERTIES. The command ends with exit code 0 after a
stop, 1 when the server could not start or could not continue, and 2 when an option or a setting is wrong."""


@click.command("store", epilog=_ABOUT)
@click.argument("properties", required=False, type=click.Path())
@click.option("--data-dir", metavar="DIR", help="the folder of the store's file (sets dataDir)")
@click.option("--port", type=int, metavar="PORT", help="where clients connect; 0 is a free port (sets clientPort)")
@click.option("--host", metavar="ADDRESS", help="the address of that port; else all (sets clientPortAddress)")
@override_option
@click.option("--log-level", metavar="LEVEL[,LOGGER=LEVEL...]",
              help="log messages of this level and above to stderr (sets barnabas.log.level)")  # fmt: skip
@click.option("--log-format", metavar="FORMAT",
              help="the form of log lines: auto, terminal, text or json (sets barnabas.log.format)")  # fmt: skip
@click.option("--ready-fd", type=int, default=-1, hidden=True, help="where it says in JSON that it serves")
def command(
    properties: str | None,
    data_dir: str | None,
    port: int | None,
    host: str | None,
    override: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
    ready_fd: int,
) -> int:
    """Run a store server: what a cluster on one machine has in the place of a ZooKeeper ensemble.

    It speaks ZooKeeper's protocol and keeps everything in one file. It is one process without replicas: while it does not
    run, no broker can be elected or registered, and a lost file is a lost cluster. A cluster over several machines needs an
    ensemble.
    """
    INTERRUPTS.leave()  # the server stops in order
    short = {
        "dataDir": data_dir,
        "clientPort": None if port is None else str(port),
        "clientPortAddress": host,
        "barnabas.log.level": log_level,
        "barnabas.log.format": log_format,
    }
    set_up_logging((), AUTO)
    try:
        from config.store_server import StoreServerSettings  # noqa: PLC0415  help needs none of these

        given = {} if properties is None else properties_from(properties, read_text(properties))
        given |= given_overrides(override)
        settings = StoreServerSettings(given | {name: value for name, value in short.items() if value is not None})
        set_up_logging(settings.barnabas_log_level, settings.barnabas_log_format)

        from barnabas.store import process  # noqa: PLC0415  the server is loaded once the settings are known to be good
        from barnabas.store.options import StoreServerOptions  # noqa: PLC0415  likewise

        return process.run(StoreServerOptions.of(settings), ready_fd, release=__version__)
    except ConfigError as error:
        print_problem(f"barnabas: {error.line}")
        return EXIT_USAGE
