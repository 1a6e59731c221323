"""`barnabas groups`: list, describe with lag, reset offsets, delete, take members out.

Rules: everything is checked for all groups before one is changed. Of a share group the offsets are those at which its share
partitions begin.
Source: kafka-consumer-groups.sh, kafka-share-groups.sh; KIP-571, KIP-848, KIP-932.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from typing import Any

import click

from client.admin import groups as group_steps
from client.admin.groups import CLASSIC, CONSUMER, SHARE, CoordinatedGroup, MemberName
from protocol.errors import KafkaError
from protocol.messages.list_groups import ListedGroup
from protocol.primitives import DecodeError
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.texts import count_text
from tools import group_targets
from tools.cluster import Cluster, cluster_command
from tools.failures import told
from tools.group_documents import MISSING, group_document, member_document
from tools.group_lag import Key, group_lag
from tools.group_targets import chosen_partitions, new_offsets, offset_target, present_offsets
from tools.names_given import one_name, some_names

_LAG_COLUMNS = ("topic", "partition", "current_offset", "log_end_offset", "lag", "member_id", "client_id", "host")
_SHARE_COLUMNS = ("topic", "partition", "start_offset", "log_end_offset", "lag")
_STATE_COLUMNS = ("group", "coordinator", "type", "assignor", "state", "members")
_KINDS = {CLASSIC: "", CONSUMER: " (consumer protocol)", SHARE: " (share group)"}
_ALL_GROUPS = click.option("--all-groups", is_flag=True, help="all groups")


command = Commands("groups", help="Groups of consumers: classic, consumer and share groups.")


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE,...", is_flag=False, flag_value="",
              help="only groups in these states; may be repeated")  # fmt: skip
@cluster_command
def list_groups(cluster: Cluster, output: Output, *, states: tuple[str, ...]) -> None:
    """List the groups of all brokers, with their states, and with their types unless all are classic."""
    wanted = {state.strip().lower() for text in states for state in text.split(",") if state}
    rows = [
        {
            "group": group.group_id,
            "type": group.group_type.lower() or CLASSIC,
            "state": group.group_state,
            "is_simple": not group.protocol_type,
        }
        for group in _listed(cluster)
        if not wanted or group.group_state.lower() in wanted
    ]
    is_mixed = any(row["type"] != CLASSIC for row in rows)
    output.table(rows, ("group", *(("type",) if is_mixed else ()), "state"))


@command.command("describe")
@some_names("group", is_required=False)
@_ALL_GROUPS
@click.option("--offsets", is_flag=True, help="show partitions with offsets and lag (the default)")
@click.option("--members", is_flag=True, help="members instead of partitions")
@click.option("--state", "shows_state", is_flag=True, help="one row a group instead of partitions")
@click.option("--verbose", is_flag=True, help="with --members, also their group.instance.id")
@cluster_command
def describe_groups(
    cluster: Cluster,
    output: Output,
    *,
    groups: tuple[str, ...],
    all_groups: bool,
    offsets: bool,
    members: bool,
    shows_state: bool,
    verbose: bool,
) -> None:
    """Show the state of GROUPS, and how far they are behind in each partition. With --json, one group is an object, and several
    are a list."""
    if sum((offsets, members, shows_state)) > 1:
        raise click.UsageError("--offsets, --members and --state do not go together")
    names = _names(cluster, groups, is_all=all_groups)
    refused: list[str] | None = [] if all_groups else None
    documents = [_document(cluster, description) for description in _descriptions(cluster, names, refused)]
    _show(
        output,
        documents,
        members=members,
        shows_state=shows_state,
        verbose=verbose,
        is_one=len(names) == 1 and not all_groups,
    )
    if refused:
        raise Failure("; ".join(refused))


def _show(
    output: Output, documents: list[dict[str, Any]], *, members: bool, shows_state: bool, verbose: bool, is_one: bool
) -> None:
    """Print what is known of groups."""
    if output.as_json:
        output.document(documents[0] if is_one else documents)
        return
    if shows_state:
        output.table([each | {"members": len(each["members"])} for each in documents], _STATE_COLUMNS)
        return
    for each in documents:
        lag = "unknown" if each["total_lag"] is None else each["total_lag"]
        kind = _KINDS[each["type"]]
        Output.note(
            f"group {each['group']}{kind}: {each['state']}, {count_text(len(each['members']), 'member')}, "
            f"coordinator {each['coordinator']}, lag {lag}"
        )
    rows = [
        {"group": each["group"], **row} for each in documents for row in each["members" if members else "partitions"]
    ]
    columns = (
        (
            "member_id",
            *(("instance_id",) if verbose else ()),
            "client_id",
            "host",
            *(("member_epoch",) if any(row["member_epoch"] is not None for row in rows) else ()),
            "partitions",
            *(("target_partitions",) if verbose and any(row["target_partitions"] is not None for row in rows) else ()),
        )
        if members
        else _LAG_COLUMNS
    )
    if not members and documents and all(each["type"] == SHARE for each in documents):
        rows, columns = [row | {"start_offset": row["current_offset"]} for row in rows], _SHARE_COLUMNS
    output.table(rows, columns if is_one else ("group", *columns))


@command.command("delete")
@some_names("group", is_required=False)
@_ALL_GROUPS
@execute_option("delete the groups")
@cluster_command
def delete_groups(
    cluster: Cluster, output: Output, *, groups: tuple[str, ...], all_groups: bool, execute: bool
) -> None:
    """Delete GROUPS, which must have no members, with their offsets. A dry run, unless --execute is given."""
    names = _names(cluster, groups, is_all=all_groups)
    if not execute:
        _show_for_deletion(cluster, output, names)
        return
    failures = []
    for group, result in cluster.run(group_steps.delete(names)).items():
        if isinstance(result, KafkaError):
            failures.append(f"{group}: {told(result)}")
        else:
            output.line({"group": group, "result": "deleted"}, f"{group}: deleted")
    if failures:
        raise Failure("; ".join(failures))


def _show_for_deletion(cluster: Cluster, output: Output, names: list[str]) -> None:
    """Print the groups. Raises Failure where --execute would."""
    found = _descriptions(cluster, names)
    for each in (description.group for description in found):
        if each.group_state == MISSING:
            raise Failure(f"there is no group {each.group_id} (`barnabas groups list` shows the groups)")
    rows = [
        {"group": each.group_id, "state": each.group_state, "members": len(each.members)}
        for each in (description.group for description in found)
    ]
    output.table(rows, ("group", "state", "members"))
    _check_without_members(found)
    Output.note("nothing was deleted: --execute deletes these groups")


def _check_without_members(descriptions: list[CoordinatedGroup]) -> None:
    """Raises Failure."""
    groups = [description.group for description in descriptions]
    active = [each for each in groups if each.group_state not in ("Empty", MISSING)]
    if active:
        texts = [f"group {each.group_id} is {each.group_state}" for each in active]
        shown = active[0].group_id
        raise Failure(f"{'; '.join(texts)}: stop its consumers first; `barnabas groups describe {shown}` shows them")


@command.command("reset")
@some_names("group", is_required=False)
@_ALL_GROUPS
@click.option("--topic", "topics", multiple=True, metavar="NAME[:0,1-3]", help="a topic, or some of its partitions")
@click.option("--all-topics", is_flag=True, help="every partition that the group has committed")
@click.option("--to-earliest", is_flag=True, help="set the offsets to the first record")
@click.option("--to-latest", is_flag=True, help="set the offsets to the end")
@click.option("--to-current", is_flag=True, help="keep the offsets that are committed; with --export it saves them")
@click.option(
    "--to-offset", type=parsing.OFFSET, help="set the offsets to this one, or to the nearest that the partition has"
)
@click.option("--shift-by", type=int, help="move the offsets so many records forward, or back when negative")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="set the offsets to the first record since this time: 2026-01-31T12:00, or 1h for an hour ago",
)
@click.option(
    "--by-duration", metavar="DURATION", help="set the offsets to the first record of this last period: PT1H, 90s"
)
@click.option("--from-file", metavar="FILE", help="to the offsets of a CSV file: topic,partition,offset")
@click.option("--export", is_flag=True, help="print the new offsets in the form that --from-file reads")
@click.option("--share", "makes_share", is_flag=True, help="a group that does not exist yet becomes a share group")
@execute_option("commit the offsets")
@cluster_command
def reset_offsets(
    cluster: Cluster,
    output: Output,
    *,
    groups: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    export: bool,
    makes_share: bool,
    execute: bool,
    from_file: str | None,
    **targets: Any,
) -> None:
    """Set the offsets of GROUPS, which must have no members. A dry run, unless --execute is given."""
    names = _names(cluster, groups, is_all=all_groups)
    descriptions = _descriptions(cluster, names)
    _check_without_members(descriptions)
    shared = {
        each.group.group_id
        for each in descriptions
        if each.share is not None or (makes_share and each.group.group_state == MISSING)
    }
    rows: list[dict[str, Any]] = []
    outside: list[str] = []
    for group in names:
        target = offset_target(cluster, group, from_file, targets)
        commits = cluster.run(present_offsets(group, is_share=group in shared))
        keys = sorted(target.offsets) if target.offsets is not None else chosen_partitions(
            cluster, topics, commits, is_all=all_topics
        )  # fmt: skip
        if not keys and not all_groups:
            raise Failure(f"group {group} has committed nothing: name a --topic")
        new = cluster.run(new_offsets(keys, commits, target))
        rows += [
            {
                "group": group,
                "topic": key[0],
                "partition": key[1],
                "current_offset": commits.get(key),
                "new_offset": new[key].offset,
            }
            for key in keys
        ]
        outside += [
            f"{key[0]}-{key[1]}: {new[key].offset} instead of {new[key].wanted}"
            for key in keys
            if new[key].offset != new[key].wanted
        ]
    if outside:
        Output.note(f"the nearest offset that there is: {', '.join(outside[:3])}{' ...' if len(outside) > 3 else ''}")
    if execute:
        _commit(cluster, rows, shared)
    is_one = len(names) == 1 and not all_groups
    columns = ("topic", "partition", "current_offset", "new_offset")
    if export:
        named = [
            (*(() if is_one else (row["group"],)), row["topic"], row["partition"], row["new_offset"]) for row in rows
        ]
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows(named)
        Output.lines(table.getvalue())
    else:
        output.table(rows, columns if is_one else ("group", *columns))
    if not execute:
        Output.note("nothing was changed: --execute commits these offsets")


@command.command("delete-offsets")
@one_name("group")
@click.option("--topic", "topics", multiple=True, required=True, metavar="NAME[:0,1-3]",
              help="a topic, or some of its partitions; may be repeated")  # fmt: skip
@execute_option("delete the offsets")
@cluster_command
def delete_offsets(cluster: Cluster, output: Output, *, group: str, topics: tuple[str, ...], execute: bool) -> None:
    """Make GROUP forget what it has committed for topics that no member reads. A share group, which must have no members,
    forgets topics as a whole. A dry run, unless --execute is given."""
    [description] = _descriptions(cluster, [group])
    is_share = description.share is not None
    if is_share and any(":" in topic for topic in topics):
        raise Failure("a share group forgets topics as a whole: name them without partitions")
    commits = cluster.run(present_offsets(group, is_share=is_share))
    keys = [key for key in chosen_partitions(cluster, topics, commits, is_all=False) if key in commits]
    if not keys:
        raise Failure(f"group {group} has committed nothing for {', '.join(topics)}")
    if is_share:
        _check_without_members([description])
    if execute:
        _check_partitions(cluster.run(group_targets.delete_offsets(group, keys, is_share=is_share)))
    rows = [{"topic": key[0], "partition": key[1], "current_offset": commits[key]} for key in keys]
    output.table(rows, ("topic", "partition", "current_offset"))
    if not execute:
        Output.note("nothing was deleted: --execute deletes these offsets")


@command.command("remove-members")
@one_name("group")
@click.option("--member-id", "member_ids", multiple=True, metavar="ID", help="remove this member; may be repeated")
@click.option("--instance-id", "instance_ids", multiple=True, metavar="ID",
              help="the static member with this group.instance.id; may be repeated")  # fmt: skip
@click.option("--all", "is_all", is_flag=True, help="remove all members")
@execute_option("remove the members")
@cluster_command
def remove_members(
    cluster: Cluster,
    output: Output,
    *,
    group: str,
    member_ids: tuple[str, ...],
    instance_ids: tuple[str, ...],
    is_all: bool,
    execute: bool,
) -> None:
    """Take members out of GROUP, such as static ones whose process is gone. One that is alive joins again. A dry run, unless
    --execute is given."""
    if is_all == bool(member_ids or instance_ids):
        raise click.UsageError("name --member-id, --instance-id, or --all")
    [description] = _descriptions(cluster, [group])
    if description.share is not None:
        raise Failure(f"{group} is a share group: its members leave only by themselves, or when their session ends")
    there = [member_document(description, member) for member in description.group.members]
    unknown = [each for each in member_ids if each not in {row["member_id"] for row in there}]
    unknown += [each for each in instance_ids if each not in {row["instance_id"] for row in there}]
    if unknown:
        raise Failure(
            f"group {group} has no member {unknown[0]}; `barnabas groups describe {group} --members` shows them"
        )
    rows = [row for row in there if is_all or row["member_id"] in member_ids or row["instance_id"] in instance_ids]
    if execute and rows:
        _remove(cluster, group, rows)
    output.table(rows, ("member_id", "instance_id", "client_id", "host", "partitions"))
    if not execute:
        Output.note("nobody was removed: --execute removes these members")


def _remove(cluster: Cluster, group: str, rows: list[dict[str, Any]]) -> None:
    """Raises Failure."""
    members = {MemberName(row["member_id"], row["instance_id"]): row for row in rows}
    results = cluster.run(group_steps.remove_members(group, list(members)))
    _check({each.member_id if each.instance_id is None else each.instance_id: error for each, error in results.items()})


def _commit(cluster: Cluster, rows: list[dict[str, Any]], shared: Collection[str]) -> None:
    """Set the new offset of each row; `shared` are the share groups. Raises Failure."""
    by_group: dict[str, dict[Key, int]] = {}
    for row in rows:
        by_group.setdefault(row["group"], {})[row["topic"], row["partition"]] = row["new_offset"]
    for group, offsets in by_group.items():
        _check_partitions(cluster.run(group_targets.set_offsets(group, offsets, is_share=group in shared)))


def _check_partitions(results: Mapping[Key, KafkaError | None]) -> None:
    """Raises Failure."""
    _check({f"{topic}-{partition}": error for (topic, partition), error in results.items()})


def _check(results: Mapping[str, KafkaError | None]) -> None:
    """Raises Failure for what was refused, each by its name."""
    failures = [f"{name}: {told(error)}" for name, error in results.items() if error is not None]
    if failures:
        raise Failure("; ".join(failures))


def _listed(cluster: Cluster) -> list[ListedGroup]:
    """Return the groups of all brokers, by name. Raises Failure when a broker does not answer."""
    found = cluster.run(group_steps.list_all())
    if found.errors:
        texts = "; ".join(f"broker {broker}: {told(error)}" for broker, error in sorted(found.errors.items()))
        raise Failure(f"not all brokers have answered, the list of groups is incomplete: {texts}")
    return sorted((each for some in found.groups.values() for each in some), key=lambda group: group.group_id)


def _names(cluster: Cluster, given: tuple[str, ...], *, is_all: bool) -> list[str]:
    """Return the groups that the options name. Raises click.UsageError, Failure."""
    if is_all == bool(given):
        raise click.UsageError("name a group: as an argument, by --group, or --all-groups")
    return [group.group_id for group in _listed(cluster)] if is_all else list(given)


def _descriptions(cluster: Cluster, names: list[str], refused: list[str] | None = None) -> list[CoordinatedGroup]:
    """Return the descriptions of groups. Raises Failure, also for one whose members were assigned what is not in the form of
    consumers; with `refused`, reasons go there instead."""
    found = []
    for name, result in cluster.run(group_steps.describe(names)).items():
        reason = f"group {name}: {told(result)}" if isinstance(result, KafkaError) else _unreadable(result)
        if reason is None and not isinstance(result, KafkaError):
            found.append(result)
        elif reason is not None and refused is not None:
            refused.append(reason)
        elif reason is not None:
            raise Failure(reason)
    return found


def _unreadable(description: CoordinatedGroup) -> str | None:
    """Return why it cannot be said what the members of a group read; None where it can."""
    try:
        for member in description.group.members:
            group_steps.assigned(member, description.group)
    except DecodeError:
        return (
            f"what the members of group {description.group.group_id} were assigned cannot be read: it is not in the form of "
            "consumers (`barnabas groups list` shows its state)"
        )
    return None


def _document(cluster: Cluster, description: CoordinatedGroup) -> dict[str, Any]:
    """Return all that is known of a group. Raises Failure when there is no such group."""
    group = description.group
    lags = cluster.run(group_lag(description))
    if not lags and group.group_state == MISSING:
        raise Failure(f"there is no group {group.group_id} (`barnabas groups list` shows the groups)")
    return group_document(description, lags)
