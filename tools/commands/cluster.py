"""`barnabas cluster`: whether a cluster is well, on one screen.

Rules: each problem names its object, its cause and the next command. Healthy is exit code 0, a problem 1.
"""

from __future__ import annotations

import click

from tools.cluster import Cluster, cluster_command
from tools.commands.topics import described, partition_rows
from tools.health import ClusterView, PartitionView, problems
from tools.output import Output


@click.group("cluster", help="The cluster as a whole.")
def command() -> None:
    pass


@command.command("health")
@cluster_command
def show_health(cluster: Cluster, output: Output) -> int:
    """Show what is wrong with the cluster, and what to do. Exit code 1 when something is."""
    described_cluster = cluster.result(cluster.admin.describe_cluster())
    controller = described_cluster.controller
    view = ClusterView(
        brokers=tuple(sorted(node.id for node in described_cluster.nodes)),
        controller=None if controller is None or controller.id < 0 else controller.id,
        partitions=tuple(
            PartitionView(row["topic"], row["partition"], row["leader"], tuple(row["replicas"]), tuple(row["isr"]))
            for topic in described(cluster)
            for row in partition_rows(topic)
        ),
    )
    found = problems(view)
    document = {
        "status": "healthy" if not found else "unhealthy",
        "cluster_id": described_cluster.cluster_id,
        "brokers": list(view.brokers),
        "controller": view.controller,
        "partitions": len(view.partitions),
        "problems": [problem.row() for problem in found],
    }
    if output.as_json:
        output.document(document)
        return bool(found)
    click.echo(
        f"cluster {document['cluster_id']}: {document['status']}; brokers {', '.join(map(str, view.brokers))}; controller "
        f"{view.controller if view.controller is not None else 'none'}; {len(view.partitions)} partitions"
    )
    for problem in found:
        click.echo(f"- {problem.subject}: {problem.cause}\n  next: {problem.next_step}")
    return bool(found)
