"""How far a group is behind: its commits beside the ends of the partitions; of a share group, what it is not done with. Pure:
steps, for whichever shell carries them out.

Rules: commits are read before the ends, so that a group that reads meanwhile is not ahead of them; a lag is negative only where
the commit is behind the end of the log, and such a lag is subtracted from no total. An end that cannot be had leaves the lag
unknown (None), not zero. A partition that is assigned to a member and has no commit has no lag. Records of a share group are
acknowledged in any order: its lag is told by its brokers, who count what is done behind the start offset.
Source: kafka-consumer-groups.sh, ConsumerGroupCommand; kafka-share-groups.sh, KIP-1226.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from client.admin import groups as group_steps
from client.admin import share_groups
from client.admin.groups import CoordinatedGroup
from client.admin.offsets import NO_OFFSET, offsets
from client.admin.share_groups import ShareOffset
from client.admin.steps import Steps
from protocol.errors import KafkaError
from protocol.messages.describe_groups import DescribedGroupMember
from protocol.messages.list_offsets import LATEST
from protocol.primitives import DecodeError
from runtime.command_line.failure import Failure
from tools.failures import told

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Of one partition that a group has committed, or that a member reads. What is unknown is None. Of a share group,
    `current_offset` is the start offset: everything before is done with. Its partitions have no owners."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None = None
    client_id: str | None = None
    host: str | None = None

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "current_offset": self.current_offset,
            "log_end_offset": self.log_end_offset,
            "lag": self.lag,
            "member_id": self.member_id,
            "client_id": self.client_id,
            "host": self.host,
        }


def end_offsets(keys: Collection[Key], *, is_committed_only: bool = False) -> Steps[dict[Key, int | None]]:
    """Return the ends of partitions; None where a leader does not answer."""
    return (yield from offsets_of(keys, LATEST, is_committed_only=is_committed_only))


def offsets_of(keys: Collection[Key], time_ms: int, *, is_committed_only: bool = False) -> Steps[dict[Key, int | None]]:
    """Return the offsets for a time, or EARLIEST, LATEST, MAX_TIMESTAMP; None where the leader does not answer, or there is
    none."""
    answers = yield from _answers(keys, time_ms, is_committed_only=is_committed_only)
    return {key: None if isinstance(answer, KafkaError) else answer for key, answer in answers.items()}


def offsets_since(keys: Collection[Key], since_ms: int) -> Steps[dict[Key, int | None]]:
    """Return the offset of the first record since then, None where there is none. Raises Failure for a partition whose leader
    does not answer: it may have one."""
    found: dict[Key, int | None] = {}
    for key, answer in (yield from _answers(keys, since_ms, is_committed_only=False)).items():
        if isinstance(answer, KafkaError):
            raise Failure(f"partition {key[0]}-{key[1]} does not answer: {told(answer)}")
        found[key] = answer
    return found


def _answers(
    keys: Collection[Key], time_ms: int, *, is_committed_only: bool
) -> Steps[dict[Key, int | KafkaError | None]]:
    """Return what the leaders answer: an offset, None for no offset, or an error."""
    found = yield from offsets(dict.fromkeys(keys, time_ms), is_committed_only=is_committed_only)
    return {key: None if answer == NO_OFFSET else answer for key, answer in found.items()}


def group_lag(group: CoordinatedGroup) -> Steps[list[PartitionLag]]:
    """Return the lag of a group, by partition. Raises KafkaError, DecodeError."""
    _owners(group)
    found = (yield from lags([group]))[group.group.group_id]
    if isinstance(found, KafkaError):
        raise found
    return found


def lags(groups: Collection[CoordinatedGroup]) -> Steps[dict[str, list[PartitionLag] | KafkaError]]:
    """Return the lag of each group, by partition, with one question about the end of each partition. Members whose assignments
    are not in the form of consumers read nothing."""
    committing = [each for each in groups if each.share is None]
    sharing = [each.group.group_id for each in groups if each.share is not None]
    commits = yield from group_steps.committed_offsets_of([each.group.group_id for each in committing])
    starts = yield from share_groups.start_offsets_of(sharing)
    owners = {each.group.group_id: _readable_owners(each) for each in groups}
    keys = {
        key for found in (*commits.values(), *starts.values()) if not isinstance(found, KafkaError) for key in found
    }
    keys.update(key for owned in owners.values() for key in owned)
    ends = yield from end_offsets(keys)
    return {
        group: found if isinstance(found, KafkaError) else _rows(owners[group], found, ends)
        for group, found in commits.items()
    } | {
        group: found if isinstance(found, KafkaError) else _share_rows(owners[group], found, ends)
        for group, found in starts.items()
    }


def total_lag(rows: Iterable[PartitionLag]) -> int | None:
    """Return the sum of the lags; None where one is unknown."""
    found = list(rows)
    return None if any(row.lag is None for row in found) else known_lag(found)


def known_lag(rows: Iterable[PartitionLag]) -> int:
    """Return the sum of the lags that are known."""
    return sum(max(row.lag, 0) for row in rows if row.lag is not None)


_Owners = dict[Key, DescribedGroupMember]


def _owners(group: CoordinatedGroup) -> _Owners:
    """Return which member reads which partition; of those that share one, any. Raises DecodeError."""
    described = group.group
    return {key: member for member in described.members for key in group_steps.assigned(member, described)}


def _readable_owners(group: CoordinatedGroup) -> _Owners:
    try:
        return _owners(group)
    except DecodeError:
        return {}


def _rows(owners: _Owners, commits: Mapping[Key, int], ends: Mapping[Key, int | None]) -> list[PartitionLag]:
    rows = []
    for key in sorted(commits.keys() | owners.keys()):
        member, offset, end = owners.get(key), commits.get(key), ends.get(key)
        rows.append(
            PartitionLag(
                topic=key[0],
                partition=key[1],
                current_offset=offset,
                log_end_offset=end,
                lag=None if offset is None or end is None else end - offset,
                member_id=None if member is None else member.member_id,
                client_id=None if member is None else member.client_id,
                host=None if member is None else member.client_host,
            )
        )
    return rows


def _share_rows(
    owners: _Owners, starts: Mapping[Key, ShareOffset], ends: Mapping[Key, int | None]
) -> list[PartitionLag]:
    rows = []
    for key in sorted(starts.keys() | owners.keys()):
        found = starts.get(key)
        offset, lag = (None, None) if found is None else found
        rows.append(PartitionLag(key[0], key[1], offset, ends.get(key), lag))
    return rows
