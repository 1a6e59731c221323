"""`barnabas start`: runs a broker, or with `--brokers` several on this machine, and the processes beside them.

Rules: parsing only; `broker.process` runs a broker in this process, `barnabas.supervisor` several, or one with processes beside
it, in theirs. Exit codes: 0 after a clean stop, 1 when a broker could not start or continue, 2 for invalid arguments and
settings.
"""

from __future__ import annotations

import gc
import os

import click

from broker.cluster.topics_at_start import parse_topics
from broker.commands.settings_sources import SOURCES, log_format_of, override_option, settings_of
from broker.observability.logging_setup import report_refusal, set_up_logging
from broker.start_options import NO_DESCRIPTOR, StartOptions
from config.errors import ConfigError
from config.unknown_settings import unknown_settings
from runtime.command_line.exit_codes import EXIT_USAGE
from runtime.command_line.group import BEGUN_MS
from runtime.command_line.interrupts import INTERRUPTS

CREATE_TOPICS_VARIABLE = "KAFKA_CREATE_TOPICS"
_EXIT_CODES = """The command ends with exit code 0 after a stop, 1 when the broker could not start or could not continue, and 2
when an option or a setting is wrong."""


@click.command("start", epilog=f"{SOURCES} {_EXIT_CODES}")
@click.argument("properties", required=False, type=click.Path())
@override_option
@click.option("--brokers", type=click.IntRange(0, 1000), metavar="N",
              help="run N brokers on this machine, and the store that they need; 0: one a core")  # fmt: skip
@click.option("--override-broker", multiple=True, metavar="ID:NAME=VALUE",
              help="set a setting of one of these brokers; may be repeated")  # fmt: skip
@click.option("--store-port", type=click.IntRange(0, 65_535), default=0, metavar="PORT",
              help="where the store of these brokers listens, on loopback; by default a free port")  # fmt: skip
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS[:REPLICAS]]",
              help="create this topic at the start if it is missing; may be repeated")  # fmt: skip
@click.option("--log-level", metavar="LEVEL[,LOGGER=LEVEL...]",
              help="log messages of this level and above to stderr (sets barnabas.log.level)")  # fmt: skip
@click.option("--log-format", metavar="FORMAT",
              help="the form of log lines: auto, terminal, text or json (sets barnabas.log.format)")  # fmt: skip
@click.option("--no-banner", is_flag=True, help="do not print the banner when the broker is ready")
# For programs that start a broker as their child.
@click.option("--ready-fd", type=int, default=NO_DESCRIPTOR, hidden=True, help="where it says in JSON that it is ready")
@click.option("--discard", hidden=True, help="a folder that it deletes when the control socket is closed")
@click.option("--control-fd", type=int, default=NO_DESCRIPTOR, hidden=True, help="over which it is controlled")
@click.option("--refuse-unknown", is_flag=True, hidden=True, help="an unknown setting is an error")
@click.pass_context
def command(
    context: click.Context,
    properties: str | None,
    override: tuple[str, ...],
    brokers: int | None,
    override_broker: tuple[str, ...],
    store_port: int,
    topics: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
    no_banner: bool,
    ready_fd: int,
    discard: str | None,
    control_fd: int,
    refuse_unknown: bool,
) -> int:
    """Run a broker, or several, with the settings of PROPERTIES, a server.properties file."""
    INTERRUPTS.leave()  # the broker stops in order
    short = (("barnabas.log.level", log_level), ("barnabas.log.format", log_format))
    overrides = [*override, *(f"{name}={value}" for name, value in short if value is not None)]
    set_up_logging(())
    try:
        settings = settings_of(properties, overrides, os.environ)
        set_up_logging(settings.barnabas_log_level, settings.barnabas_log_format)
        unknown = unknown_settings(settings) if refuse_unknown else ()
        if unknown:
            raise ConfigError("; ".join(map(str, unknown)))
        asked = [*topics, os.environ.get(CREATE_TOPICS_VARIABLE, "")]
        topics_at_start = tuple(topic for text in asked for topic in parse_topics(text))
        if brokers is None and control_fd == NO_DESCRIPTOR and (override_broker or store_port):
            raise ConfigError("--override-broker and --store-port are for several brokers: --brokers N")
        if brokers is not None or control_fd != NO_DESCRIPTOR or settings.companions:
            gc.disable()  # until all is loaded, which stays: a tenth of the start
            from barnabas.supervisor import command as supervised  # noqa: PLC0415  who starts one broker needs none of it

            request = supervised.StartRequest(
                properties, overrides, os.environ, brokers, override_broker, store_port, topics_at_start, not no_banner,
                control_fd, discard, context.meta[BEGUN_MS], ready_fd,
            )  # fmt: skip
            return supervised.start_supervised(request, settings)
        start = StartOptions(topics_at_start, not no_banner, ready_fd)
        from broker import process  # noqa: PLC0415  the server is loaded once the settings are known to be good

        return process.run(settings, start, context.meta[BEGUN_MS])
    except ConfigError as error:
        set_up_logging((), log_format_of(properties, overrides, os.environ))
        report_refusal(error.line)
        return EXIT_USAGE
