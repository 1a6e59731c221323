"""What responses say: assignments of members, and records that are not read."""

from __future__ import annotations

import pytest

from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.primitives import DecodeError
from protocol.records.batch import NO_TIMESTAMP
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch
from protocol.stored.consumer_protocol import AssignmentTopicPartition, ConsumerProtocolAssignment
from tools.health.messages import FirstUnread, assigned, first_unread

ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[AssignmentTopicPartition(topic="orders", partitions=[0, 2])]
)
KEY = ("orders", 0)


def group(*contents: bytes, protocol_type: str = "consumer") -> DescribedGroup:
    members = [
        DescribedGroupMember(
            member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=each
        )
        for each in contents
    ]
    return DescribedGroup(
        error_code=0, group_id="g", group_state="Stable", protocol_type=protocol_type, protocol_data="range",
        members=members,
    )  # fmt: skip


def test_assignments_are_read_also_those_of_later_versions() -> None:
    known = ASSIGNMENT.encode_stored(3)
    later = (9).to_bytes(2, "big") + known[2:] + b"more"
    for content in (known, later):
        assert assigned(group(content, b"")) == {("orders", 0), ("orders", 2)}
    assert assigned(group(b"\xff", protocol_type="connect")) == set()


@pytest.mark.parametrize("content", [b"\xff" * 40, b"\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\0"])
def test_an_assignment_that_cannot_be_read_is_its_own_error(content: bytes) -> None:
    with pytest.raises(DecodeError):
        assigned(group(content))


def record(timestamp_ms: int) -> Record:
    return Record(0, timestamp_ms, None, b"value")


def first(records: bytes, start: int) -> FirstUnread | None:
    row = PartitionData(partition_index=0, error_code=0, high_watermark=9, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[row])])
    return first_unread(response, {KEY: start}).get(KEY)


MARKER = encode_marker(
    EndTxnMarker(ControlType.COMMIT, 0, timestamp=90), producer_id=1, producer_epoch=0, base_offset=4
)


@pytest.mark.parametrize("compression", Compression)
def test_the_first_record_that_is_not_read_is_found_behind_markers(compression: Compression) -> None:
    records = encode_batch([record(100), record(200)], base_offset=5, compression=compression)
    assert first(MARKER + records, 4) == FirstUnread(is_there=True, time_ms=100)
    assert first(MARKER + records, 6) == FirstUnread(is_there=True, time_ms=200)


def test_of_the_first_record_nothing_may_be_known_but_that_it_is_there() -> None:
    assert first(MARKER, 4) == FirstUnread(is_there=False)
    unknown = FirstUnread(is_there=True)
    assert first(encode_batch([record(NO_TIMESTAMP)], base_offset=4), 4) == unknown
    broken = encode_batch([record(1)], base_offset=4, compression=Compression.GZIP)[:-6] + b"broken"
    assert first(broken, 4) == unknown
