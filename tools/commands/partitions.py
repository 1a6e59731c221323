"""`barnabas partitions`: move replicas between brokers, and elect leaders.

A plan is the JSON of kafka-reassign-partitions.sh, so that plans of either work with both:
    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}
Source: kafka-reassign-partitions.sh, kafka-leader-election.sh; KIP-455.
"""

from __future__ import annotations

import json
from typing import Any

import click
from confluent_kafka import ElectionType, KafkaError, TopicPartition

from tools.cluster import Cluster, cluster_command
from tools.commands.topics import described, partition_keys, partition_rows
from tools.failures import Failure, told, with_hint
from tools.group_lag import Key
from tools.output import Output
from tools.replica_plan import PlanError, spread

Plan = dict[Key, list[int]]


@click.group("partitions", help="Where partitions are, and who leads them.")
def command() -> None:
    pass


@command.command("plan")
@click.argument("topics", nargs=-1, required=True)
@click.option("--brokers", required=True, metavar="1,2,3", help="the brokers that may have replicas")
@click.option("--replication-factor", type=click.IntRange(1), help="another number of replicas")
@cluster_command
def plan_reassignment(
    cluster: Cluster, output: Output, *, topics: tuple[str, ...], brokers: str, replication_factor: int | None
) -> None:
    """Print a plan that spreads the replicas of TOPICS over brokers and their racks; `reassign --execute` takes it."""
    del output  # a plan is JSON in any case
    racks = {node.id: node.rack for node in cluster.result(cluster.admin.describe_cluster()).nodes}
    chosen = _broker_ids(brokers)
    unknown = [broker for broker in chosen if broker not in racks]
    if unknown:
        raise Failure(f"there is no broker {unknown[0]} (`barnabas brokers list` shows the brokers)")
    current = {(row["topic"], row["partition"]): row["replicas"] for topic in described(cluster, topics)
               for row in partition_rows(topic)}  # fmt: skip
    try:
        plan = spread(current, {broker: racks[broker] for broker in chosen}, replication_factor)
    except PlanError as error:
        raise Failure(str(error)) from error
    click.echo(_plan_text(plan))


@command.command("reassign")
@click.option("--plan", "path", metavar="FILE", required=True, help="the plan, as JSON")
@click.option("--execute", is_flag=True, help="begin to move; without it the moves are only shown")
@click.option("--rollback", metavar="FILE", help="where to keep the plan that takes everything back")
@cluster_command
def reassign(cluster: Cluster, output: Output, *, path: str, execute: bool, rollback: str | None) -> None:
    """Move replicas as a plan says. A dry run, unless --execute is given."""
    plan = _read_plan(path)
    now = _current(cluster, plan)
    rows = [
        {"topic": key[0], "partition": key[1], "from": now[key], "to": replicas, "moves": now[key] != replicas}
        for key, replicas in sorted(plan.items())
    ]
    if execute:
        if rollback is not None:
            _write(rollback, _plan_text({key: now[key] for key in plan}))
        _alter(cluster, {key: replicas for key, replicas in plan.items() if now[key] != replicas})
    output.table(rows, ("topic", "partition", "from", "to"))
    if not execute:
        Output.note("nothing is moved: --execute begins")
    else:
        Output.note("`barnabas partitions reassignments` shows what is still moving")


@command.command("reassignments")
@cluster_command
def list_reassignments(cluster: Cluster, output: Output) -> None:
    """List the partitions that are being moved."""
    output.table(_moving(cluster), ("topic", "partition", "replicas", "adding", "removing"))


@command.command("verify")
@click.option("--plan", "path", metavar="FILE", required=True, help="the plan, as JSON")
@cluster_command
def verify(cluster: Cluster, output: Output, *, path: str) -> int:
    """Show how far a plan has come. Exit code 1 while something is moving or differs."""
    plan = _read_plan(path)
    now = _current(cluster, plan)
    moving = {(row["topic"], row["partition"]) for row in _moving(cluster)}
    rows = [
        {
            "topic": key[0],
            "partition": key[1],
            "wanted": replicas,
            "replicas": now[key],
            "state": "moving" if key in moving else "done" if now[key] == replicas else "differs",
        }
        for key, replicas in sorted(plan.items())
    ]
    output.table(rows, ("topic", "partition", "wanted", "replicas", "state"))
    return int(any(row["state"] != "done" for row in rows))


@command.command("cancel")
@click.option("--plan", "path", metavar="FILE", help="only the partitions of this plan")
@click.option("--execute", is_flag=True, help="cancel; without it they are only shown")
@cluster_command
def cancel(cluster: Cluster, output: Output, *, path: str | None, execute: bool) -> None:
    """End reassignments: partitions return to the replicas that they had. A dry run, unless --execute is given."""
    wanted = None if path is None else _read_plan(path).keys()
    rows = [row for row in _moving(cluster) if wanted is None or (row["topic"], row["partition"]) in wanted]
    if execute:
        _alter(cluster, {(row["topic"], row["partition"]): None for row in rows})
    output.table(rows, ("topic", "partition", "replicas", "adding", "removing"))
    if not execute:
        Output.note("nothing was cancelled: --execute cancels these reassignments")


@command.command("elect")
@click.option("--topic", metavar="NAME", help="only of this topic [all]")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="only these")
@click.option("--election-type", type=click.Choice(["preferred", "unclean"]), default="preferred",
              help="unclean: also a replica that was not in sync, which loses records [preferred]")  # fmt: skip
@cluster_command
def elect(cluster: Cluster, output: Output, *, topic: str | None, partitions: str | None, election_type: str) -> None:
    """Elect the preferred leaders, or with `unclean` any that is there."""
    if topic is None and partitions is not None:
        raise click.UsageError("--partitions goes with --topic")
    if topic is not None:
        keys = partition_keys(cluster, topic, partitions)
    else:
        keys = [(row["topic"], row["partition"]) for each in described(cluster) for row in partition_rows(each)]
    kind = ElectionType.PREFERRED if election_type == "preferred" else ElectionType.UNCLEAN
    found = cluster.result(cluster.admin.elect_leaders(kind, [TopicPartition(*key) for key in keys]))
    rows, failures = [], []
    for partition, error in sorted(found.items(), key=lambda item: (item[0].topic, item[0].partition)):
        is_needed = not (isinstance(error, KafkaError) and error.name() == "ELECTION_NOT_NEEDED")
        if error is not None and is_needed:
            failures.append(f"{partition.topic}-{partition.partition}: {told(error)}")
        elif is_needed:
            rows.append({"topic": partition.topic, "partition": partition.partition, "result": "elected"})
    output.table(rows, ("topic", "partition", "result"))
    if failures:
        raise Failure("; ".join(failures))


def _broker_ids(text: str) -> list[int]:
    try:
        return [int(broker) for broker in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not of the form 1,2,3", param_hint="--brokers") from None


def _plan_text(plan: Plan) -> str:
    rows = [{"topic": key[0], "partition": key[1], "replicas": replicas} for key, replicas in sorted(plan.items())]
    return json.dumps({"version": 1, "partitions": rows})


def _read_plan(path: str) -> Plan:
    """Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["partitions"]
        return {(str(row["topic"]), int(row["partition"])): [int(broker) for broker in row["replicas"]] for row in rows}
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError):
        raise Failure(
            f'{path} is no plan: {{"version": 1, "partitions": [{{"topic", "partition", "replicas"}}]}}'
        ) from None


def _write(path: str, text: str) -> None:
    """Raises Failure."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error


def _current(cluster: Cluster, plan: Plan) -> Plan:
    """Return the replicas of the plan's partitions as they are. Raises Failure for a partition that is missing."""
    topics = tuple(sorted({topic for topic, _ in plan}))
    found = {(row["topic"], row["partition"]): list(row["replicas"]) for each in described(cluster, topics)
             for row in partition_rows(each)} if topics else {}  # fmt: skip
    missing = sorted(plan.keys() - found.keys())
    if missing:
        raise Failure(f"there is no partition {missing[0][0]}-{missing[0][1]}")
    return {key: found[key] for key in plan}


def _alter(cluster: Cluster, targets: dict[Key, Any]) -> None:
    """Begin or end reassignments. Raises Failure."""
    from kafka.structs import TopicPartition as OtherTopicPartition  # noqa: PLC0415

    if not targets:
        return
    asked = {OtherTopicPartition(*key): replicas for key, replicas in targets.items()}
    failures = [
        f"{partition.topic}-{partition.partition}: {with_hint(str(error.message), None)}"
        for partition, error in cluster.other_admin.alter_partition_reassignments(asked).items()
        if error is not None
    ]
    if failures:
        raise Failure("; ".join(failures))


def _moving(cluster: Cluster) -> list[dict[str, Any]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(state["replicas"]),
            "adding": list(state["adding_replicas"]),
            "removing": list(state["removing_replicas"]),
        }
        for partition, state in sorted(cluster.other_admin.list_partition_reassignments().items())
    ]
