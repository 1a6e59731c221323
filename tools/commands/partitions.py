"""`barnabas partitions`: move replicas between brokers and log directories, and elect leaders.

A plan is the JSON of kafka-reassign-partitions.sh, so that plans of either work with both; throttles are those that it sets
and removes, so that what one has begun the other can verify, cancel and end.
Source: kafka-reassign-partitions.sh, kafka-leader-election.sh; KIP-455, KIP-73, KIP-113.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from client.admin.replicas import ElectionType, ReplicaKey
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.group_lag import Key
from tools.json_files import read_partitions, read_topics
from tools.names_given import some_names
from tools.placement import current_replicas, described, partition_rows
from tools.reassignment.beginning import begin, check_brokers, check_none_moving, spread_plan, throttled_topics
from tools.reassignment.elections import elect as elect_leaders
from tools.reassignment.plan_file import Plan, plan_of, plan_text, read_plan, write_plan
from tools.reassignment.reassignments import alter, move_directories, moving, places
from tools.reassignment.throttles import remove_throttles, throttle_directories
from tools.setting_units import Size

_BYTES_PER_S = Size()
_PRESERVE = click.option("--preserve-throttles", is_flag=True, help="keep the throttles")


command = Commands("partitions", help="Where partitions are, and who leads them.")


@command.command("plan")
@some_names("topic", is_required=False)
@click.option(
    "--topics-to-move-json-file", "topics_path", metavar="FILE", help="topics, as of kafka-reassign-partitions.sh"
)
@click.option(
    "--brokers",
    "--broker-list",
    "broker_list",
    required=True,
    metavar="1,2,3",
    help="the brokers that may have replicas",
)
@click.option("--replication-factor", type=parsing.REPLICAS, help="give each partition this number of replicas")
@click.option("--disable-rack-aware", is_flag=True, help="ignore the racks of the brokers")
@cluster_command
def plan_reassignment(
    cluster: Cluster,
    output: Output,
    *,
    topics: tuple[str, ...],
    topics_path: str | None,
    broker_list: str,
    replication_factor: int | None,
    disable_rack_aware: bool,
) -> None:
    """Print a plan that spreads the replicas of TOPICS over brokers and their racks; `reassign --execute` takes it."""
    del output  # a plan is JSON in any case
    if bool(topics) == (topics_path is not None):
        raise click.UsageError("name TOPICS, or --topics-to-move-json-file")
    if topics_path is not None:
        topics = read_topics(topics_path)
    chosen = parsing.broker_ids(broker_list, "--brokers")
    _, plan = cluster.run(spread_plan(topics, chosen, replication_factor, ignores_racks=disable_rack_aware))
    click.echo(plan_text(plan_of(plan)))


@command.command("reassign")
@click.option("--plan", "--reassignment-json-file", "path", metavar="FILE", required=True, help="the plan, as JSON")
@execute_option("begin to move the replicas")
@click.option("--rollback", metavar="FILE", help="where to keep the plan that takes everything back")
@click.option(
    "--throttle", type=_BYTES_PER_S, metavar="BYTES/S", help="limit of what brokers send each other; verify removes it"
)
@click.option("--replica-alter-log-dirs-throttle", "log_dirs_throttle", type=_BYTES_PER_S, metavar="BYTES/S",
              help="limit of moves between log directories of a broker; verify removes it")  # fmt: skip
@click.option("--additional", is_flag=True, help="begin although other moves are running, or change their throttle")
@click.option("--timeout", "timeout_ms", type=click.IntRange(0), default=10_000, metavar="MS",
              help="how long to wait for replicas whose log directory is named [10000]")  # fmt: skip
@cluster_command
def reassign(
    cluster: Cluster,
    output: Output,
    *,
    path: str,
    execute: bool,
    rollback: str | None,
    throttle: int | None,
    log_dirs_throttle: int | None,
    additional: bool,
    timeout_ms: int,
) -> None:
    """Move replicas as a plan says. A dry run, unless --execute is given."""
    plan = read_plan(path)
    now = cluster.run(current_replicas(plan))
    cluster.run(check_brokers({broker for target in plan.values() for broker in target.replicas}))
    rows = []
    for key, target in sorted(plan.items()):
        row = {"topic": key[0], "partition": key[1], "from": now[key], "to": list(target.replicas)}
        row["moves"] = row["from"] != row["to"]
        rows.append(row | ({"log_dirs": list(target.log_dirs)} if target.log_dirs else {}))
    if execute:
        if rollback is not None:
            write_plan(rollback, plan_of(now))
        _begin(cluster, plan, now, (throttle, log_dirs_throttle), additional=additional, timeout_ms=timeout_ms)
    columns = ["topic", "partition", "from", "to", *(("log_dirs",) if any("log_dirs" in row for row in rows) else ())]
    output.table(rows, columns)
    if not execute:
        Output.note("nothing is moved: --execute begins")
    elif throttle is None and log_dirs_throttle is None:
        Output.note("`barnabas partitions reassignments` shows what is still moving")
    else:
        Output.note(
            f"`barnabas partitions verify --plan {path}` shows what is still moving; it removes the throttle at the end"
        )


@command.command("reassignments")
@cluster_command
def list_reassignments(cluster: Cluster, output: Output) -> None:
    """List the partitions that are being moved."""
    output.table(_moving_rows(cluster), ("topic", "partition", "replicas", "adding", "removing"))


@command.command("verify")
@click.option("--plan", "--reassignment-json-file", "path", metavar="FILE", required=True, help="the plan, as JSON")
@_PRESERVE
@cluster_command
def verify(cluster: Cluster, output: Output, *, path: str, preserve_throttles: bool) -> int:
    """Show how far a plan has come. When nothing is moving any more, throttles are removed. Exit code 1 while something is
    moving or differs."""
    plan = read_plan(path)
    active = cluster.run(moving())
    now = cluster.run(current_replicas(plan))
    directories = _directory_states(cluster, plan)
    rows: list[dict[str, Any]] = []
    for key, target in sorted(plan.items()):
        wanted = list(target.replicas)
        states = ["moving" if key in active else "done" if now[key] == wanted else "differs"]
        row: dict[str, Any] = {"topic": key[0], "partition": key[1], "wanted": wanted, "replicas": now[key]}
        if target.directories:
            row["log_dirs"] = [directories[*key, broker] for broker in target.directories]
            states += [each["state"] for each in row["log_dirs"]]
        rows.append(row | {"state": next(state for state in ("moving", "differs", "done") if state in states)})
    shown = [
        row | ({"log_dirs": [f"{each['broker']}:{each['log_dir'] or '?'}" for each in row["log_dirs"]]}
               if "log_dirs" in row and not output.as_json else {})
        for row in rows
    ]  # fmt: skip
    columns = ["topic", "partition", "wanted", "replicas", *(("log_dirs",) if directories else ()), "state"]
    output.table(shown, columns)
    is_moving = bool(active) or any(row["state"] == "moving" for row in rows)
    if not is_moving and not preserve_throttles:
        _tell(cluster.run(remove_throttles({topic for topic, _ in plan})))
    return int(any(row["state"] != "done" for row in rows))


@command.command("cancel")
@click.option(
    "--plan",
    "--reassignment-json-file",
    "path",
    metavar="FILE",
    help="only the partitions of this plan, and its log directories",
)
@execute_option("cancel the reassignments")
@_PRESERVE
@cluster_command
def cancel(cluster: Cluster, output: Output, *, path: str | None, execute: bool, preserve_throttles: bool) -> None:
    """End reassignments: partitions return to the replicas that they had, and throttles are removed. A dry run, unless
    --execute is given."""
    plan = None if path is None else read_plan(path)
    rows = [row for row in _moving_rows(cluster) if plan is None or (row["topic"], row["partition"]) in plan]
    if execute:
        cluster.run(alter({(row["topic"], row["partition"]): None for row in rows}))
        if plan is not None:
            _stop_directories(cluster, plan)
        if not preserve_throttles:
            topics = {topic for topic, _ in plan} if plan is not None else cluster.run(throttled_topics())
            _tell(cluster.run(remove_throttles(topics)))
    output.table(rows, ("topic", "partition", "replicas", "adding", "removing"))
    if not execute:
        Output.note("nothing was cancelled: --execute cancels these reassignments")


@command.command("elect")
@click.option("--topic", metavar="NAME", help="only of this topic [all]")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="elect only for these partitions")
@click.option(
    "--path-to-json-file",
    "path",
    metavar="FILE",
    help="elect only for the partitions in this file, as of kafka-leader-election.sh",
)
@click.option("--all-topic-partitions", "is_all", is_flag=True, help="elect for all partitions (the default)")
@click.option("--election-type", type=click.Choice(["preferred", "unclean"], case_sensitive=False), default="preferred",
              help="unclean: also a replica that was not in sync, which loses records [preferred]")  # fmt: skip
@execute_option("elect; a preferred leader is elected in any case")
@cluster_command
def elect(
    cluster: Cluster,
    output: Output,
    *,
    topic: str | None,
    partitions: str | None,
    path: str | None,
    is_all: bool,
    election_type: str,
    execute: bool,
) -> None:
    """Elect the preferred leaders, or with `unclean` any that is there, which is a dry run, unless --execute is given."""
    if topic is None and partitions is not None:
        raise click.UsageError("--partitions goes with --topic")
    if sum((topic is not None, path is not None, is_all)) > 1:
        raise click.UsageError("--topic, --path-to-json-file and --all-topic-partitions do not go together")
    if path is not None:
        keys = read_partitions(path)
        cluster.run(current_replicas(keys))  # says which partition is missing
    elif topic is not None:
        keys = partition_keys(cluster, topic, partitions)
    else:
        keys = [(row["topic"], row["partition"]) for each in cluster.run(described()) for row in partition_rows(each)]
    if election_type == "unclean" and not execute:
        _show_leaderless(cluster, output, keys)
        return
    kind = ElectionType.PREFERRED if election_type == "preferred" else ElectionType.UNCLEAN
    rows = [
        {"topic": topic, "partition": index, "result": "elected"}
        for topic, index in cluster.run(elect_leaders(kind, keys))
    ]
    output.table(rows, ("topic", "partition", "result"))


def _show_leaderless(cluster: Cluster, output: Output, keys: Collection[Key]) -> None:
    """Print the partitions among `keys` that an unclean election gives a leader."""
    topics = tuple(sorted({topic for topic, _ in keys}))
    rows = [
        row
        for each in (cluster.run(described(topics)) if topics else ())
        for row in partition_rows(each)
        if row["leader"] is None and (row["topic"], row["partition"]) in keys
    ]
    output.table(rows, ("topic", "partition", "replicas", "isr"))
    Output.note("nothing was elected: --execute elects leaders of these partitions, and loses what the new ones do not have"
                if rows else "every partition has a leader")  # fmt: skip


def _begin(
    cluster: Cluster,
    plan: Plan,
    now: dict[tuple[str, int], list[int]],
    throttles: tuple[int | None, int | None],
    *,
    additional: bool,
    timeout_ms: int,
) -> None:
    """Throttle, and begin to move. The throttles are between brokers, and between directories. Raises Failure."""
    active = cluster.run(moving())
    if not additional:
        check_none_moving(active)
    wanted = {key: target.replicas for key, target in plan.items()}
    directories = {(*key, broker): path for key, target in plan.items() for broker, path in target.directories.items()}
    between_brokers, between_directories = throttles
    if between_directories is not None:
        cluster.run(throttle_directories({broker for _, _, broker in directories}, between_directories))
    cluster.run(begin(active, wanted, now, between_brokers))
    move_directories(cluster, directories, timeout_ms)


def _tell(notes: list[str]) -> None:
    for note in notes:
        Output.note(note)


def _directory_states(cluster: Cluster, plan: Plan) -> dict[ReplicaKey, dict[str, Any]]:
    """Return where each replica is for which the plan names a directory: "moving", "done" or "differs"."""
    wanted = {(*key, broker): path for key, target in plan.items() for broker, path in target.directories.items()}
    found = cluster.run(places({broker for _, _, broker in wanted}, {key[:2] for key in wanted})) if wanted else {}
    states = {}
    for key, path in wanted.items():
        place = found.get(key)
        if place is None:
            state = "differs"
        elif place.future_path is not None:
            state = "moving" if place.future_path == path else "differs"
        else:
            state = "done" if place.path == path else "differs"
        states[key] = {
            "broker": key[2],
            "wanted": path,
            "log_dir": None if place is None else place.path,
            "state": state,
        }
    return states


def _stop_directories(cluster: Cluster, plan: Plan) -> None:
    """End what is on its way to a directory of the plan: it stays where it is. Raises Failure."""
    wanted = {(*key, broker) for key, target in plan.items() for broker in target.directories}
    if wanted:
        found = cluster.run(places({key[2] for key in wanted}, {key[:2] for key in wanted}))
        back = {key: found[key].path for key in wanted if key in found and found[key].future_path is not None}
        move_directories(cluster, back, 0)


def _moving_rows(cluster: Cluster) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition": index,
            "replicas": list(each.replicas),
            "adding": list(each.adding),
            "removing": list(each.removing),
        }
        for (topic, index), each in cluster.run(moving()).items()
    ]
