"""Messages behind their version."""

from __future__ import annotations

import pytest

from protocol.primitives import DecodeError, EncodeError
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription
from protocol.stored.group_metadata import GroupMetadataKey
from protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.stored.stored import stored_version
from protocol.stored.transaction_log import TransactionLogKey


def test_known_bytes() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3).encode_stored(1)
    assert key == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9).encode_stored(3)
    assert value == b"\x00\x03" + bytes(7) + b"\x05\x00\x00\x00\x02\x00\x01m" + bytes(7) + b"\x09"
    assert GroupMetadataKey(group="g").encode_stored(2) == b"\x00\x02\x00\x01g"
    assert TransactionLogKey(transactional_id="t").encode_stored(0) == b"\x00\x00\x00\x01t"


def test_round_trip() -> None:
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=9, expire_timestamp=7)
    wire = value.encode_stored(1)
    assert stored_version(wire) == 1
    assert OffsetCommitValue.decode_stored(memoryview(wire)) == value


def test_versions_that_are_not_there() -> None:
    with pytest.raises(EncodeError):
        GroupMetadataKey(group="g").encode_stored(1)
    for data in (b"", b"\x00", b"\x00\x09\x00\x01g", b"\xff\xff\x00\x01g", b"\x00\x02\x00\x05g"):
        with pytest.raises(DecodeError):
            GroupMetadataKey.decode_stored(data)


def test_subscription_as_clients_send_it() -> None:
    sent = ConsumerProtocolSubscription(topics=["a", "b"], owned_partitions=[]).encode_stored(1)
    assert sent == b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x01b\xff\xff\xff\xff\x00\x00\x00\x00"
