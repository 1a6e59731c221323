"""`barnabas brokers`: the brokers of a cluster."""

from __future__ import annotations

import click

from tools.cluster import Cluster, cluster_command
from tools.output import Output


@click.group("brokers", help="Brokers of a cluster.")
def command() -> None:
    pass


@command.command("list")
@cluster_command
def list_brokers(cluster: Cluster, output: Output) -> None:
    """List the brokers, and which of them is the controller."""
    described = cluster.result(cluster.admin.describe_cluster())
    controller = described.controller
    rows = [
        {
            "broker": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "is_controller": controller is not None and broker.id == controller.id,
        }
        for broker in sorted(described.nodes, key=lambda broker: int(broker.id))
    ]
    output.table(rows, ("broker", "host", "port", "rack", "is_controller"))
