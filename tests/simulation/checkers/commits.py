"""Committed offsets: what a committer was told is stored is what it reads, never less, over every process crash.

A committer commits rising numbers, one at a time. One whose answer never came is in doubt: it may come into force later,
even after its successor (its bytes may still be on the wire). After a loss of power a group goes back to something that
was committed before, but not behind what was on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.records.batch import read_header
from protocol.records.record import iter_records
from protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.stored.stored import stored_version
from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import FoundBatch
from tests.simulation.machine import End, Ended, Started

GROUP_METADATA_TOPIC = "__consumer_offsets"
NOTHING = -1
_MAX_BYTES = 1 << 24

Committed = tuple[str, str, int]  # group, topic, partition


@dataclass(slots=True)
class CommitModel:
    sent: set[int] = field(default_factory=set)
    floor: int = NOTHING
    in_doubt: set[int] = field(default_factory=set)
    cuts_count: int = 0


class CommitChecker:
    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._models: dict[Committed, CommitModel] = {}

    def model(self, key: Committed) -> CommitModel:
        return self._models.setdefault(key, CommitModel())

    def sending(self, key: Committed, offset: int) -> None:
        model = self.model(key)
        model.sent.add(offset)
        model.in_doubt.add(offset)

    def refused(self, key: Committed, offset: int) -> None:
        """The broker said that it is not committed."""
        self.model(key).in_doubt.discard(offset)

    def acknowledged(self, key: Committed, offset: int, cuts_count: int) -> None:
        model = self.model(key)
        if cuts_count == model.cuts_count:
            model.floor = max(model.floor, offset)

    def fetched(self, key: Committed, floor: int, cuts_count: int, offset: int, metadata: str | None) -> None:
        """`floor` and `cuts_count` are the model's when the request was sent."""
        model = self.model(key)
        if offset == NOTHING:
            if floor != NOTHING and cuts_count == model.cuts_count:
                self._report(f"commit of {key} is gone: {floor} was acknowledged")
            return
        if offset not in model.sent:
            self._report(f"commit of {key}: {offset} was never committed")
        if metadata != text_of(offset):
            self._report(f"commit of {key}: metadata of {offset} is {metadata!r}")
        if offset < floor and offset not in model.in_doubt and cuts_count == model.cuts_count:
            self._report(f"commit of {key} went back to {offset}: {floor} was acknowledged")

    def on_ended(self, ended: Ended) -> None:
        if ended.how is not End.POWER_CRASH:
            return
        durable = last_commits(ended.durable)
        for key, model in self._models.items():
            model.cuts_count += 1
            model.floor = durable.get(key, NOTHING)

    def forget_floors(self) -> None:
        """What was acknowledged is not promised any more."""
        for model in self._models.values():
            model.cuts_count += 1
            model.floor = NOTHING

    def on_started(self, started: Started) -> None:
        """Nothing: groups are looked at through requests."""


def text_of(offset: int) -> str:
    return f"m{offset}"


def last_commits(logs: dict[TopicPartition, list[FoundBatch]]) -> dict[Committed, int]:
    """What the batches of __consumer_offsets add up to."""
    found: dict[Committed, int] = {}
    for (topic, _), batches in logs.items():
        if topic != GROUP_METADATA_TOPIC:
            continue
        for batch in batches:
            header = read_header(batch.content, 0)
            if header.is_transactional:  # offsets of transactions have a checker of their own
                continue
            for record in iter_records(batch.content, 0, header, _MAX_BYTES):
                assert record.key is not None
                if stored_version(record.key) > 1:
                    continue
                key = OffsetCommitKey.decode_stored(record.key)
                where = (key.group, key.topic, key.partition)
                if record.value is None:
                    found.pop(where, None)
                else:
                    found[where] = OffsetCommitValue.decode_stored(record.value).offset
    return found
