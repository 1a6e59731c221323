"""The stored formats: byte for byte what Apache Kafka 3.9.1 wrote for the same state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.group.assigned.entries import EntryKey, EntryKind
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import (
    GroupKey,
    OffsetKey,
    UnknownKey,
    group_record,
    group_tombstone,
    members_of,
    offset_record,
    offset_tombstone,
    read_group_value,
    read_key,
    read_offset_value,
)
from protocol.primitives import DecodeError
from protocol.stored.group_metadata import GroupMetadataValue, MemberMetadata
from protocol.stored.offset_commit import OffsetCommitValue

MEMBER_ID = "me-1bcd13ba-d070-4286-b2ec-f772287bbb2e"
STABLE_GROUP = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e676500276d652d31626364313362612d643037302d343238362d623265632d663737323238"
    "376262623265000001a1fe0699360000000100276d652d31626364313362612d643037302d343238362d623265632d66373732323837626262"
    "3265ffff00026d65000a2f3132372e302e302e3100002710000027100000000d000000000001000174ffffffff00000003616263"
)
EMPTY_GROUP = bytes.fromhex("00030008636f6e73756d657200000002ffffffff000001a1fe06b8a700000000")
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (CommittedOffset(5, -1, "x", 1795263207609), "00030000000000000005ffffffff000178000001a1fe0698b9"),
        (
            CommittedOffset(6, -1, "", 1795263207639, 1795264207639),
            "000100000000000000060000000001a1fe0698d7000001a1fe15db17",
        ),
        (CommittedOffset(6, -1, "", 1795263207642), "00030000000000000006ffffffff0000000001a1fe0698da"),
    ],
)
def test_committed_offsets_are_written_as_apache_kafka_writes_them(commit: CommittedOffset, expected: str) -> None:
    record = offset_record("g", ("t", 0), commit)
    assert record.value is not None and record.value.hex() == expected
    assert record.key.hex() == "0001000167000174" + "00000000"
    assert read_key(record.key) == OffsetKey("g", ("t", 0))
    assert read_offset_value(record.value) == commit
    assert offset_tombstone("g", ("t", 0)).key == record.key
    assert offset_tombstone("g", ("t", 0)).value is None


def test_a_commit_with_an_expiry_cannot_keep_its_leader_epoch() -> None:
    record = offset_record("g", ("t", 0), CommittedOffset(6, 4, "", 1, expire_timestamp_ms=2))
    assert record.value is not None
    assert read_offset_value(record.value).leader_epoch == -1


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, "00010000000000000005000178000001a1fe0698b9ffffffffffffffff"),
        (2, "00020000000000000005000178000001a1fe0698b9"),
        (3, "0003000000000000000500000004000178000001a1fe0698b9"),
    ],
)
def test_older_brokers_of_the_cluster_understand_what_is_written(version: int, expected: str) -> None:
    commit = CommittedOffset(5, 4, "x", 1795263207609)
    record = offset_record("g", ("t", 0), commit, version)
    assert record.value is not None and record.value.hex() == expected
    assert read_offset_value(record.value) == replace(commit, leader_epoch=4 if version >= 3 else -1)
    expiring = offset_record("g", ("t", 0), replace(commit, expire_timestamp_ms=9), version)
    assert expiring.value is not None and read_offset_value(expiring.value).expire_timestamp_ms == 9


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_brokers_of_the_cluster_understand_the_groups_that_are_written(version: int) -> None:
    record = group_record(group_of_one(), {MEMBER_ID: b"abc"}, version)
    assert record.value is not None and record.value[:2] == version.to_bytes(2, "big")
    stored = read_group_value(record.value)
    assert [(each.member_id, each.assignment) for each in members_of(stored)] == [(MEMBER_ID, b"abc")]
    assert stored.current_state_timestamp == (1795263207734 if version >= 2 else -1)


def group_of_one() -> ClassicGroup:
    group = ClassicGroup("m", 0, WaitingBytes(1))
    group.add(
        Member(
            member_id=MEMBER_ID,
            group_instance_id=None,
            client_id="me",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=10_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", SUBSCRIPTION),),
        ),
        None,
    )
    group.protocol_name = "range"
    group.generation_id = 1
    group.state_timestamp_ms = 1795263207734
    return group


def test_group_metadata_is_written_as_apache_kafka_writes_it() -> None:
    group = group_of_one()
    record = group_record(group, {MEMBER_ID: b"abc"})
    assert record.value == STABLE_GROUP
    assert read_key(record.key) == GroupKey("m")
    assert read_key(group_tombstone("m").key) == GroupKey("m")
    group.remove(MEMBER_ID)
    group.protocol_name = None
    group.generation_id = 2
    group.state_timestamp_ms = 1795263215783
    assert group_record(group, {}).value == EMPTY_GROUP


def test_stored_members_come_back_with_the_chosen_protocol() -> None:
    (member,) = members_of(read_group_value(STABLE_GROUP))
    assert (member.member_id, member.client_id, member.client_host) == (MEMBER_ID, "me", "/127.0.0.1")
    assert member.protocols == (("range", SUBSCRIPTION),)
    assert (member.assignment, member.is_new, member.is_static) == (b"abc", False, False)


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_every_version_are_read(version: int) -> None:
    stored = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        current_state_timestamp=99 if version >= 2 else -1,
        members=[
            MemberMetadata(
                member_id="m",
                group_instance_id="i" if version >= 3 else None,
                client_id="c",
                client_host="/h",
                rebalance_timeout=500 if version >= 1 else -1,
                session_timeout=300,
                subscription=SUBSCRIPTION,
                assignment=b"a",
            )
        ],
    )
    read = read_group_value(stored.encode_stored(version))
    (member,) = members_of(read)
    # Version 0 knew one timeout.
    assert member.rebalance_timeout_ms == (500 if version >= 1 else 300)
    assert member.group_instance_id == ("i" if version >= 3 else None)
    group = ClassicGroup("g", 1, WaitingBytes(1))
    group.restore(read, [member])
    assert group.state_timestamp_ms == (99 if version >= 2 else None)
    assert group.subscribed == frozenset({"t"})


@pytest.mark.parametrize("version", range(5))
def test_offset_values_of_every_version_are_read(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6).encode_stored(version)
    assert read_offset_value(value) == CommittedOffset(5, -1, "m", 6)


def test_keys_of_the_oldest_version_are_offsets_and_newer_kinds_are_told_apart() -> None:
    key = offset_record("g", ("t", 3), CommittedOffset(1, -1, "", 0)).key
    assert read_key(b"\x00\x00" + key[2:]) == OffsetKey("g", ("t", 3))
    assert read_key(b"\x00\x03\x00\x01g") == EntryKey(EntryKind.GROUP_EPOCH, "g")
    assert read_key(b"\x00\x09\x00\x01g") == UnknownKey(9)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01\x00\x05g", b"\x00\x02\x00\x01g and more"])
def test_a_key_that_is_none_raises(key: bytes) -> None:
    with pytest.raises(DecodeError):
        read_key(key)


@pytest.mark.parametrize("value", [b"", b"\x00\x09", b"\x00\x03\x00\x00"])
def test_a_value_that_is_none_raises(value: bytes) -> None:
    with pytest.raises(DecodeError):
        read_offset_value(value)
    with pytest.raises(DecodeError):
        read_group_value(value)
