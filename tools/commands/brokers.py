"""`barnabas brokers`: the brokers of a cluster, their log directories, and which requests they understand.

Source: kafka-log-dirs.sh, kafka-broker-api-versions.sh.
"""

from __future__ import annotations

from typing import Any

import click

from runtime.texts import size_text
from tools import parsing
from tools.cluster import Cluster, cluster_command
from tools.failures import Failure
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


@command.command("log-dirs")
@click.option("--broker-list", "--broker", "brokers", metavar="0,2", help="show only these brokers [all]")
@click.option("--topic-list", "--topic", "topics", metavar="A,B", help="only partitions of these topics [all]")
@click.option("--partitions", "by_partition", is_flag=True, help="one row a replica, not one a directory")
@cluster_command
def describe_log_dirs(
    cluster: Cluster, output: Output, *, brokers: str | None, topics: str | None, by_partition: bool
) -> int:
    """Show the log directories of brokers: their replicas, bytes and errors. Exit code 1 when one has failed."""
    asked = parsing.partitions(brokers, "--broker-list")
    known = {node.id for node in cluster.result(cluster.admin.describe_cluster()).nodes}
    for broker in asked or ():
        _check(broker, known)
    names = None if topics is None else [name.strip() for name in topics.split(",")]
    found = cluster.other_admin.describe_log_dirs(names, asked)
    silent = [
        str(each["broker"]) for each in found if not each["log_dirs"]
    ]  # how a broker says that this user may not ask
    if silent:
        raise Failure(
            f"broker {', '.join(silent)} shows no log directory: this user needs the right to describe the cluster "
            "(`barnabas acls list --cluster` shows who has it)"
        )
    rows = [
        _directory_row(each["broker"], directory)
        for each in sorted(found, key=lambda each: int(each["broker"]))
        for directory in sorted(each["log_dirs"], key=lambda directory: str(directory["log_dir"]))
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
    from kafka.protocol.api_key import ApiKey  # noqa: PLC0415

    known = {node.id for node in cluster.result(cluster.admin.describe_cluster()).nodes}
    if broker is not None:
        _check(broker, known)
    rows = [
        {"broker": each, "key": int(key), "api": _api_name(ApiKey, int(key)), "lowest": lowest, "highest": highest}
        for each in ([broker] if broker is not None else sorted(known))
        for key, (lowest, highest) in sorted(cluster.other_admin.get_broker_version_data(each).api_versions.items())
    ]
    output.table(rows, ("broker", "key", "api", "lowest", "highest"))


def _check(broker: int, known: set[int]) -> None:
    """Raises Failure."""
    if broker not in known:
        raise Failure(f"there is no broker {broker} (`barnabas brokers list` shows the brokers)")


def _api_name(keys: Any, key: int) -> str:
    try:
        return str(keys(key).name)
    except ValueError:
        return "unknown"


def _directory_row(broker: int, directory: dict[str, Any]) -> dict[str, Any]:
    from kafka.errors import for_code  # noqa: PLC0415

    code = directory["error_code"]
    replicas = [
        {
            "broker": broker,
            "log_dir": directory["log_dir"],
            "topic": topic["name"],
            "partition": each["partition_index"],
            "bytes": each["partition_size"],
            "offset_lag": each["offset_lag"],
            "is_future": each["is_future_key"],
        }
        for topic in sorted(directory["topics"], key=lambda topic: str(topic["name"]))
        for each in sorted(topic["partitions"], key=lambda each: int(each["partition_index"]))
    ]
    return {
        "broker": broker,
        "log_dir": directory["log_dir"],
        "error": None if not code else str(for_code(code).message),
        "partitions": len(replicas),
        "bytes": sum(replica["bytes"] for replica in replicas),
        "usable_bytes": _known(directory.get("usable_bytes")),
        "total_bytes": _known(directory.get("total_bytes")),
        "replicas": replicas,
    }


def _with_sizes(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its numbers of bytes as people read them."""
    names = {"bytes": "size", "usable_bytes": "usable", "total_bytes": "total"}
    return row | {shown: size_text(row[name]) for name, shown in names.items() if row.get(name) is not None}


def _known(size: int | None) -> int | None:
    """Return None for what old brokers do not tell."""
    return None if size is None or size < 0 else size
