"""`barnabas brokers`: the brokers of a cluster, their log directories, and which requests they understand.

Source: kafka-log-dirs.sh, kafka-broker-api-versions.sh.
"""

from __future__ import annotations

from typing import Any

import click

from client.admin import topics as topic_steps
from client.admin.brokers import checked, each_broker
from client.admin.brokers import cluster as describe_cluster
from client.admin.features import API_VERSIONS
from client.admin.replicas import log_dirs
from protocol.api_names import name_of_api
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_log_dirs import DescribeLogDirsResult
from runtime.command_line import parsing
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.texts import size_text
from tools.cluster import Cluster, cluster_command
from tools.placement import partition_rows

command = Commands("brokers", help="Brokers of a cluster.")


@command.command("list")
@cluster_command
def list_brokers(cluster: Cluster, output: Output) -> None:
    """List the brokers, and which of them is the controller."""
    found = cluster.run(describe_cluster())
    rows = [
        {
            "broker": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "is_controller": broker.node_id == found.controller_id,
        }
        for broker in sorted(found.brokers, key=lambda broker: broker.node_id)
    ]
    output.table(rows, ("broker", "host", "port", "rack", "is_controller"))


@command.command("log-dirs")
@click.option("--broker-list", "--broker", "brokers", metavar="0,2", help="show only these brokers [all]")
@click.option("--topic-list", "--topic", "topics", metavar="A,B", help="only partitions of these topics [all]")
@click.option("--partitions", "by_partition", is_flag=True, help="one row a replica, not one a directory")
@cluster_command
def describe_log_dirs(
    cluster: Cluster, output: Output, *, brokers: str | None, topics: str | None, by_partition: bool
) -> int:
    """Show the log directories of brokers: their replicas, bytes and errors. Exit code 1 when one has failed."""
    asked = _chosen(cluster, parsing.partitions(brokers, "--broker-list"))
    names = None if topics is None else [name.strip() for name in topics.split(",")]
    keys = None if names is None else [
        (row["topic"], row["partition"])
        for name, topic in cluster.run(topic_steps.describe(names)).items()
        if not isinstance(topic, KafkaError)
        for row in partition_rows(topic)
    ]  # fmt: skip
    found = checked(cluster.run(log_dirs(asked, keys)))
    silent = [str(broker) for broker, each in found.items() if not each.results]
    if silent:  # how a broker says that this user may not ask
        raise Failure(
            f"broker {', '.join(silent)} shows no log directory: this user needs the right to describe the cluster "
            "(`barnabas acls list --cluster` shows who has it)"
        )
    rows = [
        _directory_row(broker, directory)
        for broker, each in sorted(found.items())
        for directory in sorted(each.results, key=lambda directory: str(directory.log_dir))
    ]
    if by_partition:
        shown = [replica for row in rows for replica in row["replicas"]]
        columns: tuple[str, ...] = ("broker", "log_dir", "topic", "partition", "size", "offset_lag", "is_future")
    else:
        shown, columns = rows, ("broker", "log_dir", "error", "partitions", "size", "usable", "total")
    output.table(shown if output.as_json else list(map(_with_sizes, shown)), columns)
    return int(any(row["error"] is not None for row in rows))


@command.command("api-versions")
@click.option("--broker", type=int, metavar="ID", help="only of this broker [all]")
@cluster_command
def list_api_versions(cluster: Cluster, output: Output, *, broker: int | None) -> None:
    """List the requests that brokers understand, with their versions."""
    found = checked(cluster.run(each_broker(API_VERSIONS, _chosen(cluster, None if broker is None else [broker]))))
    rows = [
        {
            "broker": each,
            "key": row.api_key,
            "api": name_of_api(row.api_key),
            "lowest": row.min_version,
            "highest": row.max_version,
        }
        for each, response in sorted(found.items())
        for row in sorted(response.api_keys, key=lambda row: row.api_key)
    ]
    output.table(rows, ("broker", "key", "api", "lowest", "highest"))


def _chosen(cluster: Cluster, wanted: list[int] | None) -> list[int]:
    """Return these brokers, or all. Raises Failure for one that is not there."""
    known = sorted(broker.node_id for broker in cluster.run(describe_cluster()).brokers)
    for broker in wanted or ():
        if broker not in known:
            raise Failure(f"there is no broker {broker} (`barnabas brokers list` shows the brokers)")
    return known if wanted is None else wanted


def _directory_row(broker: int, directory: DescribeLogDirsResult) -> dict[str, Any]:
    replicas = [
        {
            "broker": broker,
            "log_dir": directory.log_dir,
            "topic": topic.name,
            "partition": each.partition_index,
            "bytes": each.partition_size,
            "offset_lag": each.offset_lag,
            "is_future": each.is_future_key,
        }
        for topic in sorted(directory.topics, key=lambda topic: topic.name)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    return {
        "broker": broker,
        "log_dir": directory.log_dir,
        "error": ErrorCode.of(directory.error_code).name if directory.error_code else None,
        "partitions": len(replicas),
        "bytes": sum(replica["bytes"] for replica in replicas),
        "usable_bytes": _known(directory.usable_bytes),
        "total_bytes": _known(directory.total_bytes),
        "replicas": replicas,
    }


def _with_sizes(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its numbers of bytes as people read them."""
    names = {"bytes": "size", "usable_bytes": "usable", "total_bytes": "total"}
    return row | {shown: size_text(row[name]) for name, shown in names.items() if row.get(name) is not None}


def _known(size: int) -> int | None:
    """Return None for what old brokers do not tell."""
    return None if size < 0 else size
