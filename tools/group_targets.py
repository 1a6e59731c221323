"""Where the offsets of a group are set to, from the options of `groups reset`.

Rules: a new offset is within what its partition has; one that was asked for and is outside becomes the nearest, which the
command tells. `--to-current` keeps what is committed as it is, also outside of the log, so that an export is a backup. A
partition whose leader does not answer ends the command, and so does one that a group shall shift and has not committed. What a
group has committed is, of a share group, where its share partitions begin.
Source: kafka-consumer-groups.sh and kafka-share-groups.sh, --reset-offsets.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import click

from client.admin import groups as group_steps
from client.admin import share_groups
from client.admin.brokers import checked
from client.admin.steps import Steps
from protocol.errors import KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from runtime.command_line import parsing
from runtime.command_line.failure import Failure
from tools.cluster import Cluster
from tools.commands.topics import partition_keys
from tools.group_lag import Key, offsets_of, offsets_since

_COLUMNS = 3
"""Of a file about one group: topic, partition, offset."""


def present_offsets(group: str, *, is_share: bool) -> Steps[dict[Key, int]]:
    """Return what a group has committed, or where its share partitions begin. Raises KafkaError."""
    if not is_share:
        return (yield from group_steps.committed_offsets(group))
    found = checked((yield from share_groups.start_offsets_of([group])))[group]
    return {key: each.start_offset for key, each in found.items()}


def set_offsets(group: str, offsets: Mapping[Key, int], *, is_share: bool) -> Steps[dict[Key, KafkaError | None]]:
    """Set the offsets of a group without members."""
    if is_share:
        return (yield from share_groups.alter_start_offsets(group, offsets))
    return (yield from group_steps.commit_offsets(group, offsets))


def delete_offsets(group: str, keys: Collection[Key], *, is_share: bool) -> Steps[dict[Key, KafkaError | None]]:
    """Make a group forget offsets. Of a share group those of whole topics are deleted, which `keys` must name."""
    if not is_share:
        return (yield from group_steps.delete_offsets(group, keys))
    found = yield from share_groups.delete_topics(group, {topic for topic, _ in keys})
    return {key: found[key[0]] for key in keys}


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """`spec` is "earliest", "latest" or a time; else an offset, a shift, or the offsets of a file."""

    spec: str | int | None = None
    offset: int | None = None
    shift: int | None = None
    offsets: dict[Key, int] | None = None
    is_current: bool = False


def offset_target(cluster: Cluster, group: str, from_file: str | None, targets: dict[str, Any]) -> OffsetTarget:
    """Return where offsets are set to. Raises click.UsageError unless it is said once."""
    given = [name for name, value in targets.items() if value is not None and value is not False]
    if len(given) + (from_file is not None) != 1:
        raise click.UsageError(
            "say once where to: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
            "--by-duration or --from-file"
        )
    if from_file is not None:
        return OffsetTarget(offsets=_offsets_of_file(from_file, group))
    name, value = given[0], targets[given[0]]
    now_ms = cluster.clock.wall_ms()
    if name == "to_current":
        return OffsetTarget(is_current=True)
    if name == "to_offset":
        return OffsetTarget(offset=value)
    if name == "shift_by":
        return OffsetTarget(shift=value)
    if name == "to_datetime":
        return OffsetTarget(spec=parsing.time_ms(value, "--to-datetime", now_ms))
    if name == "by_duration":
        return OffsetTarget(spec=now_ms - parsing.duration_ms(value, "--by-duration"))
    return OffsetTarget(spec=name.removeprefix("to_"))


@dataclass(frozen=True, slots=True)
class NewOffset:
    """Of one partition. `wanted` is what the options ask for, which may be outside of what the partition has."""

    offset: int
    wanted: int


def new_offsets(keys: list[Key], commits: Mapping[Key, int], target: OffsetTarget) -> Steps[dict[Key, NewOffset]]:
    """Return the new offset of each partition. Raises Failure."""
    kept = {key: NewOffset(commits[key], commits[key]) for key in keys if target.is_current and key in commits}
    asked = [key for key in keys if key not in kept]
    first = yield from offsets_of(asked, EARLIEST)
    end = yield from offsets_of(asked, LATEST)
    at_time = (yield from offsets_since(asked, target.spec)) if isinstance(target.spec, int) else {}
    new = kept
    for key in asked:
        lowest, highest = first[key], end[key]
        if lowest is None or highest is None:
            raise Failure(f"partition {key[0]}-{key[1]} does not answer; `barnabas cluster health` tells more")
        if target.shift is not None:
            if key not in commits:
                raise Failure(f"the group has no offset of {key[0]}-{key[1]} that could be shifted")
            wanted = commits[key] + target.shift
        elif target.offsets is not None:
            wanted = target.offsets[key]
        elif target.offset is not None:
            wanted = target.offset
        elif isinstance(target.spec, int):
            found = at_time[key]
            wanted = highest if found is None else found  # no record is as young
        else:
            wanted = lowest if target.spec == "earliest" else highest
        new[key] = NewOffset(min(max(wanted, lowest), highest), wanted)
    return new


def chosen_partitions(cluster: Cluster, topics: tuple[str, ...], commits: dict[Key, int], *, is_all: bool) -> list[Key]:
    """Return the partitions that the options name. Raises click.UsageError, Failure."""
    if is_all == bool(topics):
        raise click.UsageError("name --topic, or --all-topics")
    if is_all:
        return sorted(commits)
    keys: list[Key] = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        keys += partition_keys(cluster, topic, numbers or None)
    return sorted(set(keys))


def _offsets_of_file(path: str, group: str) -> dict[Key, int]:
    """Return the offsets of a group in a CSV file: of all lines, or of those that name it in a first column, as an export of
    several groups has it. Raises Failure."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        wanted = [row[-3:] for row in rows if len(row) == _COLUMNS or row[-4] == group]
        found = {(topic.strip(), int(partition)): int(offset) for topic, partition, offset in wanted}
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, IndexError):
        raise Failure(f"{path} does not have lines of the form topic,partition,offset") from None
    for topic, partition in found:
        if not 0 <= partition <= parsing.INT32_MAX:
            raise Failure(f"{path} names partition {partition} of {topic}: there is no such number")
    if not found:
        raise Failure(f"{path} has no offsets of group {group}")
    return found
