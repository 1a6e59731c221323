"""Acknowledgements of share groups that no client would send: each gets the answer of Apache Kafka 4.3.0, what the member holds
stays its own, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.primitives import uuid_to_text
from protocol.varint import encode_uvarint
from tests.oracle.process import wait_until
from tests.robustness.bounds import bounded
from tests.robustness.process import BrokerProcess
from tests.robustness.wire import TIMEOUT_S, Wire, carries_within_ms, create_topic, find_coordinator, produce

VERSION: Final = 2
LONG_MAX, LONG_MIN = (1 << 63) - 1, -(1 << 63)
RECORDS: Final = 100
MANY: Final = 20_000
MEMBER, OTHER = uuid_to_text(bytes(range(16))), uuid_to_text(bytes(range(1, 17)))
OK, INVALID, STATE = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE

Batch = tuple[int, int, list[int]]


class Member:
    """A member of group g that holds a share session for partition 0 of a topic."""

    def __init__(self, wire: Wire, member_id: str, topic_id: bytes) -> None:
        self._wire = wire
        self._member_id = member_id
        self._topic_id = topic_id
        self._epochs = itertools.count()

    def fetch(self, batches: Sequence[Batch] = ()) -> Any:
        """The row of the partition, None when the answer has none. It acknowledges, too."""
        asked = FetchPartition(partition_index=0, acknowledgement_batches=rows_of(batches))
        request = ShareFetchRequest(
            group_id="g", member_id=self._member_id, share_session_epoch=next(self._epochs), max_wait_ms=20,
            min_bytes=1, max_records=1_000, batch_size=1_000,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[asked])], forgotten_topics_data=[],
        )  # fmt: skip
        answer = self._wire.ask(request, VERSION)
        assert answer.error_code == OK, answer.error_message
        return answer.responses[0].partitions[0] if answer.responses else None

    def acknowledge(self, batches: Sequence[Batch], partition: int = 0) -> ErrorCode:
        """What the broker says of them: of all, or of the partition."""
        answer = self._wire.ask(self.acknowledgement(batches, partition), VERSION)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def acknowledgement(self, batches: Sequence[Batch], partition: int = 0) -> ShareAcknowledgeRequest:
        """The next of its session."""
        asked = AcknowledgePartition(partition_index=partition, acknowledgement_batches=rows_of(batches))
        return ShareAcknowledgeRequest(
            group_id="g", member_id=self._member_id, share_session_epoch=next(self._epochs), is_renew_ack=False,
            topics=[AcknowledgeTopic(topic_id=self._topic_id, partitions=[asked])],
        )  # fmt: skip


def rows_of(batches: Sequence[Batch]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=types) for a, b, types in batches]


REFUSED: dict[str, tuple[list[Batch], ErrorCode]] = {
    "backwards": ([(50, 40, [1])], INVALID),
    "below zero": ([(-5, -1, [1])], INVALID),
    "from the least to the greatest": ([(LONG_MIN, LONG_MAX, [1])], INVALID),
    "to the greatest": ([(0, LONG_MAX, [1])], INVALID),
    "the greatest": ([(LONG_MAX, LONG_MAX, [1])], INVALID),
    "beyond the end": ([(100_000, 200_000, [1])], INVALID),
    "one more than is held": ([(0, RECORDS, [1])], INVALID),
    "twice the same": ([(0, 9, [1]), (0, 9, [1])], INVALID),
    "overlapping": ([(0, 9, [1]), (5, 14, [2])], INVALID),
    "out of order": ([(50, 59, [1]), (0, 9, [1])], INVALID),
    "no type": ([(0, 9, [])], INVALID),
    "too few types": ([(0, 9, [1, 1])], INVALID),
    "too many types": ([(0, 1, [1, 1, 1])], INVALID),
    "no such type": ([(0, 9, [7])], INVALID),
    "negative type": ([(0, 9, [-1])], INVALID),
    "renews, and does not say so": ([(0, 9, [4])], INVALID),
    "many ranges": ([(number, number, [1]) for number in range(MANY)], INVALID),
    "many ranges of nothing": ([(LONG_MAX - number, LONG_MAX - number, [1]) for number in range(MANY)], INVALID),
    "many types": ([(0, MANY - 1, [1] * MANY)], INVALID),
}  # fmt: skip

BEYOND_THE_END: Final = {
    "to the greatest",
    "the greatest",
    "beyond the end",
    "one more than is held",
    "many ranges",
    "many types",
}
"""Those that have the form of acknowledgements: the answer says in words what is wrong."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings: dict[str, object] = {
        "offsets.topic.num.partitions": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.share.record.lock.duration.ms": 60_000,
    }
    with BrokerProcess(tmp_path_factory.mktemp("hostile-acknowledgements"), settings) as running:
        create_topic(running, "good")
        find_coordinator(running, "g")
        yield running
    assert "Traceback" not in running.log
    assert "level=error" not in running.log


@pytest.fixture(scope="module")
def topic_id(broker: BrokerProcess) -> bytes:
    """Of a topic that group g reads, with records in two batches."""
    return prepared(broker)


def prepared(broker: BrokerProcess) -> bytes:
    create_topic(broker, "t", 2)
    with Wire(broker) as wire:
        found: list[bytes] = []

        def is_assigned() -> bool:
            beat = ShareGroupHeartbeatRequest(
                group_id="g", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["t"]
            )
            answer = wire.ask(beat, 1)
            if answer.error_code == OK and answer.assignment is not None:
                found.extend(row.topic_id for row in answer.assignment.topic_partitions)
            return bool(found)

        assert wait_until(is_assigned, TIMEOUT_S), "no assignment"
    return found[0]


def acquired(member: Member, broker: BrokerProcess) -> tuple[int, int]:
    """Write records, and return the offsets of those that the member has got."""
    member.fetch()  # opens the session; the group begins at the end of the topic
    produce(broker, "t", *[b"value"] * (RECORDS // 2))
    produce(broker, "t", *[b"value"] * (RECORDS // 2))
    first, last = None, -1

    def is_all() -> bool:
        nonlocal first, last
        row = member.fetch()
        for batch in [] if row is None else row.acquired_records:
            first = batch.first_offset if first is None else first
            last = batch.last_offset
        return first is not None and last == first + RECORDS - 1

    assert wait_until(is_all, TIMEOUT_S), (first, last)
    assert first is not None
    return first, last


def test_each_is_answered(broker: BrokerProcess, topic_id: bytes) -> None:
    with good_clients(broker), Wire(broker) as wire, Wire(broker) as others:
        holder, other = Member(wire, MEMBER, topic_id), Member(others, OTHER, topic_id)
        first, last = acquired(holder, broker)
        answers = {name: holder.acknowledge(shifted(batches, first)) for name, (batches, _) in REFUSED.items()}
        fetched = {name: holder.fetch(shifted(batches, first)) for name, (batches, _) in REFUSED.items()}
        other.fetch()
        answers["of another"] = other.acknowledge([(first, last, [1])])
        answers["unknown partition"] = holder.acknowledge([(first, first, [1])], 7)
        singly = [(offset, offset, [2 + offset % 2]) for offset in range(first, last + 1)]
        answers["every second is given back"] = holder.acknowledge(singly)
        answers["again"] = holder.acknowledge([(first, last, [2])])
    refused = {name: error for name, (_, error) in REFUSED.items()}
    assert answers == refused | {
        "of another": STATE,
        "unknown partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "every second is given back": OK,
        "again": STATE,
    }
    assert {name: row.acknowledge_error_code for name, row in fetched.items()} == refused
    assert {name for name, row in fetched.items() if row.acknowledge_error_message} == BEYOND_THE_END


def test_a_million_ranges_end_the_connection(broker: BrokerProcess, topic_id: bytes) -> None:
    """No request has so many elements."""
    with good_clients(broker), Wire(broker) as wire:
        member = Member(wire, OTHER, topic_id)
        frame = wire.frame(member.acknowledgement([(0, 9, [1])]), VERSION)
        (batch,) = re.findall(struct.pack(">qq", 0, 9) + b"\x02\x01\x00", frame)
        front, back = frame[4:].split(b"\x02" + batch)
        body = front + encode_uvarint(1_000_001) + batch * 1_000_000 + back
        with contextlib.suppress(ConnectionError):  # it may end before all is sent
            wire.socket.sendall(struct.pack(">i", len(body)) + body)
        assert wire.is_closed()


def shifted(batches: list[Batch], by: int) -> list[Batch]:
    """Small offsets count from the first that is held."""
    return [
        (first + by if abs(first) < LONG_MAX >> 1 else first, last + by if abs(last) < LONG_MAX >> 1 else last, types)
        for first, last, types in batches
    ]


def good_clients(broker: BrokerProcess) -> contextlib.AbstractContextManager[None]:
    """Produce and fetch, while the body runs; memory is bounded."""
    return bounded(broker, partial(carries_within_ms, topic="good"))
