"""Which groups have read past a record, by what they have committed, with their lag. Pure: steps for a shell.

Rules: only groups that have committed an offset of the record's partition, or whose members read it, are told. A share group is
done with what is before its start offset; of a record behind it nobody tells whether it is acknowledged. A group that this user
may not describe is not there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from client.admin import groups as group_steps
from client.admin.steps import Steps
from protocol.errors import KafkaError
from tools.group_lag import Key, lags


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Of a group in one partition. `committed` and `lag` are None where they are not known; of a share group, `committed` is
    where its share partition begins."""

    group: str
    state: str
    committed: int | None
    lag: int | None
    is_share: bool = False

    def is_past(self, offset: int) -> bool | None:
        """Return whether it is done with a record; None where that is not known."""
        if self.committed is None:
            return None
        return self.committed > offset or (None if self.is_share else False)

    def before(self, offset: int) -> int | None:
        """Return how many offsets it has to read before it is past this one; 0 if it is, None where that is not known."""
        return None if self.committed is None else max(offset + 1 - self.committed, 0)


def positions_in(partitions: Collection[Key]) -> Steps[dict[Key, list[GroupPosition]]]:
    """Return the groups of each of these partitions, by name. Raises KafkaError."""
    found: dict[Key, list[GroupPosition]] = {key: [] for key in partitions}
    listed = yield from group_steps.list_all()
    names = {each.group_id for groups in listed.groups.values() for each in groups if _may_commit(each.protocol_type)}
    described = yield from group_steps.describe(sorted(names))
    groups = {name: each for name, each in described.items() if not isinstance(each, KafkaError)}
    for name, rows in (yield from lags(list(groups.values()))).items():
        if isinstance(rows, KafkaError):
            continue
        for row in rows:
            if (row.topic, row.partition) in found:
                group = groups[name]
                position = GroupPosition(
                    name, group.group.group_state, row.current_offset, row.lag, group.share is not None
                )
                found[row.topic, row.partition].append(position)
    return {key: sorted(those, key=lambda each: each.group) for key, those in found.items()}


def _may_commit(protocol_type: str) -> bool:
    """Whether a group of this kind has offsets; one that only commits has no kind."""
    return protocol_type in ("", group_steps.CONSUMER, group_steps.SHARE)
