"""`barnabas cluster`: whether a cluster is well, on one screen.

Rules: each problem names its object, its cause, since when, and the next command. Healthy is exit code 0, a problem 1; notices
are no problem. A check takes less than ten seconds, whatever hangs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import click

from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.command_line.group import BEGUN_MS, Commands
from runtime.command_line.output import Output
from runtime.texts import time_text
from tools.cluster import Cluster, cluster_command
from tools.failures import Unreachable
from tools.health.checks import Finding, findings
from tools.health.since import Address, addresses_of, with_first_seen
from tools.health.view import ClusterView

_LOOKS = "looking at brokers, disks and groups; what might stand still is watched for some seconds"
DEFAULT_WINDOW_MS = 6_000
"""Longer than auto.commit.interval.ms of most consumers, 5 s."""


command = Commands("cluster", help="The cluster as a whole.")


@command.command("health")
@click.option("--watch", is_flag=True, help="check again and again, until Ctrl-C")
@click.option("--interval", "interval_s", type=click.IntRange(1), default=5, metavar="SECONDS",
              help="seconds between two checks of --watch [5]")  # fmt: skip
@click.option("--all", "shows_all", is_flag=True, help="every problem, not only the first few of each kind")
@click.option("--window-ms", type=click.IntRange(0, DEFAULT_WINDOW_MS), default=DEFAULT_WINDOW_MS, metavar="N",
              help="how long a group that lags may commit nothing before it is called stuck [6000]")  # fmt: skip
@click.option("--http", "http_addresses", metavar="HOST:PORT[,...]",
              help="where brokers tell since when, if not at the barnabas.http.port that they name [barnabas.http of the "
              "profile]")  # fmt: skip
@cluster_command
def show_health(
    cluster: Cluster,
    output: Output,
    *,
    watch: bool,
    interval_s: int,
    shows_all: bool,
    window_ms: int,
    http_addresses: str | None,
) -> int:
    """Show what is wrong with the cluster, since when, and what to do. Exit code 1 when something is."""
    from tools.health.screen import is_healthy  # noqa: PLC0415

    addresses = addresses_of(http_addresses or cluster.settings.http_addresses)
    seen: dict[tuple[str, str], int] = {}
    begun_ms = click.get_current_context().meta[BEGUN_MS]
    view: ClusterView | None = None
    code = EXIT_FAILED
    try:
        while True:
            try:
                view = _collect(cluster, window_ms, addresses, view, begun_ms)
            except Unreachable:
                if not watch:
                    raise
                Output.note(
                    f"{time_text(cluster.clock.wall_ms())} no broker answers at {cluster.settings.bootstrap_servers}"
                )
                code = EXIT_FAILED
            else:
                found = findings(view)
                if watch:
                    found = with_first_seen(found, seen, view.now_ms)
                _show(output, view, found, watch=watch, shows_all=shows_all)
                code = int(not is_healthy(found))
            if not watch:
                return code
            time.sleep(interval_s)
            begun_ms = cluster.clock.monotonic_ms()
    except KeyboardInterrupt:
        if not watch:
            raise
        return code


def _collect(
    cluster: Cluster, window_ms: int, addresses: Sequence[Address], previous: ClusterView | None, begun_ms: int
) -> ClusterView:
    """Raises Unreachable, LoginRefused, SettingsError."""
    from tools.health.collection import collect  # noqa: PLC0415
    from tools.health.view_collection import LIMIT_MS  # noqa: PLC0415

    limit_ms = LIMIT_MS - (cluster.clock.monotonic_ms() - begun_ms)
    with cluster.waits.connecting(_LOOKS):
        view = collect(cluster.settings.client, cluster.clock, window_ms, previous, limit_ms=limit_ms, pages=addresses)
    return replace(view, options=cluster.options)


def _show(output: Output, view: ClusterView, found: Sequence[Finding], *, watch: bool, shows_all: bool) -> None:
    from tools.health.screen import document, lines  # noqa: PLC0415

    if output.as_json and watch:
        output.line(document(view, found), "")
    elif output.as_json:
        output.document(document(view, found))
    else:
        if watch and sys.stdout.isatty():
            click.clear()
        for line in lines(view, found, shows_all=shows_all, shows_time=watch):
            click.echo(line)
    sys.stdout.flush()
