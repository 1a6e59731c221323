"""`dump-log` over files that are made here: what is printed, what is found wrong, and what never ends it."""

from __future__ import annotations

import errno
import gzip
import os
import struct
import zlib
from pathlib import Path

import pytest

from protocol.records.compression import Compression
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch
from protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.stored.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StoredStateBatch,
)
from protocol.stored.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from storage.offline.dump import Dump, DumpOptions
from storage.offline.dump_text import offsets_texts, plain_texts, share_texts, transaction_texts
from storage.segments.stored_batches import CorruptLog, StoredBatches
from tests.doubles.file_system import ControlledFileSystem, fails
from tests.storage.directories.bad_files import write_log
from tests.storage.offline.dumping import FILESYSTEM, batches, dumped, records


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition's folder with every kind of file."""
    folder = tmp_path_factory.mktemp("dump")
    write_log(folder)
    return folder / "t-0"


def test_a_folder_stands_for_its_files_and_is_sound(partition: Path) -> None:
    lines, complaints, wrong = dumped(partition, deep_iteration=True)
    assert not complaints and not wrong
    shown = [line.rpartition("/")[2] for line in lines if line.startswith("Dumping ")]
    assert shown == sorted(path.name for path in partition.iterdir())
    assert {name.rpartition(".")[2] for name in shown} >= {"log", "index", "timeindex", "snapshot", "txnindex"}
    assert any(line.startswith("version: 0 producerId: 7 firstOffset: 0 lastOffset: 8 ") for line in lines)
    assert any(line.endswith("endTxnMarker: ABORT coordinatorEpoch: 0") for line in lines)
    assert "epoch: 0 startOffset: 0" in lines
    assert not any("isvalid: false" in line for line in lines)


def test_a_log_directory_stands_for_its_partitions(partition: Path) -> None:
    assert dumped(partition.parent)[0] == dumped(partition)[0]


def test_keys_and_values(tmp_path: Path) -> None:
    path = batches(tmp_path, encode_batch(records(b"v", None), compression=Compression.ZSTD))
    lines, _, _ = dumped(path, deep_iteration=True, print_data_log=True)
    assert lines[-2:] == [
        "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h] key: k payload: v",
        "| offset: 1 CreateTime: 1001 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [h] key: k",
    ]
    plain, _, _ = dumped(path, deep_iteration=True, print_data_log=True, skip_record_metadata=True)
    assert plain[-2:] == ["| key: k payload: v", "| key: k"]


def test_sequences_begin_again_at_zero(tmp_path: Path) -> None:
    path = batches(
        tmp_path, encode_batch(records(b"a", b"b"), producer_id=1, producer_epoch=0, base_sequence=2**31 - 1)
    )
    lines = dumped(path, deep_iteration=True)[0]
    assert " sequence: 2147483647 " in lines[-2] and " sequence: 0 " in lines[-1]


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (-1, 3, -1),
        (-33_554_433, 0, -33_554_433),
        (-1_968_633_736, 9, -1_968_633_727),
        (2**31 - 1, 1, 0),
        (5, -7, 2**31 - 2),
    ],
)
def test_sequences_of_a_damaged_header(tmp_path: Path, base: int, delta: int, last: int) -> None:
    """As Apache Kafka's tool reckons them: negative ones go on, and records of such a batch have none."""
    content = bytearray(encode_batch(records(b"a"), base_sequence=5))
    struct.pack_into(">i", content, 23, delta)
    struct.pack_into(">i", content, 53, base)
    lines = dumped(batches(tmp_path, bytes(content)), deep_iteration=True)[0]
    assert f" baseSequence: {base} lastSequence: {last} " in lines[2]
    assert f" sequence: {max(base, -1)} " in lines[3]


def test_legacy_messages(tmp_path: Path) -> None:
    path = batches(tmp_path, *(encode_message_set(records(b"v", b"w", offset=2 * magic), magic) for magic in (0, 1)))
    lines, complaints, wrong = dumped(path, deep_iteration=True)
    assert not complaints and not wrong
    assert lines[2].startswith("offset: 0 position: 0 NoTimestampType: -1 size: ")
    assert lines[3].startswith("| offset: 0 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true crc: ")
    assert lines[-1].startswith("| offset: 3 CreateTime: 1001 ") and lines[-1].endswith("}")


def test_gaps_are_told_and_are_no_damage(tmp_path: Path) -> None:
    path = batches(tmp_path, encode_batch(records(b"a")), encode_batch(records(b"b", offset=5), base_offset=5))
    _, complaints, wrong = dumped(path, deep_iteration=True)
    assert complaints == [f"Non-consecutive offsets in {path}", "  0 is followed by 5"] and not wrong


def test_offsets_that_fall_are_damage(tmp_path: Path) -> None:
    path = batches(tmp_path, encode_batch(records(b"a", offset=5), base_offset=5), encode_batch(records(b"b")))
    _, complaints, wrong = dumped(path, deep_iteration=True)
    assert complaints == [f"Non-consecutive offsets in {path}", "  5 is followed by 0"] and wrong == 1


def test_max_bytes_ends_before_the_batch_that_crosses_it(tmp_path: Path) -> None:
    first = encode_batch(records(b"a"))
    path = batches(tmp_path, first, encode_batch(records(b"b", offset=1), base_offset=1))
    for limit, count in ((len(first) - 1, 0), (len(first), 1), (len(first) + 5, 1), (1 << 20, 2)):
        lines, _, _ = dumped(path, max_bytes=limit)
        assert sum(line.startswith("baseOffset") for line in lines) == count
        assert not any("invalid bytes" in line for line in lines)


def damaged(content: bytes) -> bytes:
    """With another last byte."""
    return content[:-1] + bytes([content[-1] ^ 1])


def test_a_wrong_checksum_is_shown_and_told(tmp_path: Path) -> None:
    """Who throws the batches away hears of it all the same, where it is and what it holds."""
    sound = encode_batch(records(b"a"))
    path = batches(tmp_path, sound, damaged(encode_batch(records(b"b", b"c", offset=1), base_offset=1)))
    for options in ({}, {"deep_iteration": True}):
        lines, complaints, wrong = dumped(path, **options)
        assert sum(line.endswith("isvalid: false") for line in lines) == 1 and wrong == 1
        assert complaints == [f"{path}: the batch of offsets 1 to 2 at position {len(sound)} has a wrong checksum"]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_checksum_of_an_old_message(tmp_path: Path, magic: int) -> None:
    sound = encode_message_set(records(b"a"), magic)
    path = batches(tmp_path, sound, damaged(encode_message_set(records(b"b", offset=1), magic)))
    complaints, wrong = dumped(path, deep_iteration=True)[1:]
    assert (
        complaints == [f"{path}: the message of offset 1 at position {len(sound)} has a wrong checksum"] and wrong == 1
    )


def test_a_wrong_checksum_inside_a_compressed_message(tmp_path: Path) -> None:
    """The wrapper's own is right; only who looks into it sees."""
    inner = encode_message_set(records(b"a"), 0) + damaged(encode_message_set(records(b"b", offset=1), 0))
    wrapper = bytearray(encode_message_set([Record(1, -1, None, gzip.compress(inner), [])], 0))
    wrapper[17] |= Compression.GZIP
    wrapper[12:16] = zlib.crc32(wrapper[16:]).to_bytes(4, "big")
    path = batches(tmp_path, bytes(wrapper))
    assert dumped(path)[1:] == ([], 0)
    lines, complaints, wrong = dumped(path, deep_iteration=True)
    assert "isValid: true" in lines[-2] and "isValid: false" in lines[-1] and wrong == 1
    assert complaints == [f"{path}: the message of offset 1 inside the one at position 0 has a wrong checksum"]


def test_half_a_batch_at_the_end(tmp_path: Path) -> None:
    whole = encode_batch(records(b"a"))
    path = batches(tmp_path, whole, whole[:30])
    lines, complaints, wrong = dumped(path)
    assert lines[-1] == "Found 30 invalid bytes at the end of 00000000000000000000.log" and wrong == 1
    assert complaints == [f"{path}: the last 30 bytes, from position {len(whole)} on, are no whole batch"]


@pytest.mark.parametrize("count", [1, 16, 17])
def test_bytes_at_the_end_that_are_too_few_for_a_batch(tmp_path: Path, count: int) -> None:
    whole = encode_batch(records(b"a"))
    path = batches(tmp_path, whole, b"\xff" * count)
    lines, complaints, wrong = dumped(path)
    assert lines[-1] == f"Found {count} invalid bytes at the end of 00000000000000000000.log" and wrong == 1
    assert complaints == [f"{path}: the last {count} bytes, from position {len(whole)} on, are no whole batch"]


@pytest.mark.parametrize("content", [bytes(100), b"\xff" * 100, struct.pack(">qiiB", 0, 40, 0, 7) + bytes(60)])
def test_bytes_that_are_no_batch_end_a_file_and_not_the_dump(tmp_path: Path, content: bytes) -> None:
    broken = batches(tmp_path, content)
    sound = batches(tmp_path, encode_batch(records(b"a")), name="00000000000000000009.log")
    lines, complaints, wrong = dumped(broken, sound)
    assert len(complaints) == 1 and "position 0: " in complaints[0] and wrong
    assert lines[-1].endswith("isvalid: true")


def test_records_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    batch = bytearray(encode_batch(records(b"a" * 50), compression=Compression.GZIP))
    batch[61:80] = bytes(19)
    path = batches(tmp_path, bytes(batch))
    lines, complaints, wrong = dumped(path, deep_iteration=True)
    assert complaints[0] == f"{path}: the batch of offsets 0 to 0 at position 0 has a wrong checksum"
    assert complaints[1].startswith(f"{path}: the records of the batch at position 0 cannot be read: ")
    assert len(complaints) == wrong == 2 and "isvalid: false" in lines[-1]


def test_a_batch_that_is_written_meanwhile(tmp_path: Path) -> None:
    """What was half a batch when the walk began is taken once it is whole; what follows is not, and is no damage."""
    one, two, three = (encode_batch(records(b"v" * 10, offset=at), base_offset=at) for at in range(3))
    path = batches(tmp_path, one, two[:40])
    file = FILESYSTEM.open(str(path), writable=False)
    try:
        walk = StoredBatches(file)
        found = iter(walk)
        assert next(found).header.base_offset == 0
        path.write_bytes(one + two + three[:20])
        assert [batch.header.base_offset for batch in found] == [1] and walk.trailing_bytes == 0
    finally:
        file.close()


def test_a_batch_larger_than_the_window(tmp_path: Path) -> None:
    content = encode_batch(records(bytes(3 << 20)))
    path = batches(tmp_path, content, encode_batch(records(b"b", offset=1), base_offset=1))
    file = FILESYSTEM.open(str(path), writable=False)
    try:
        found = [
            (batch.is_valid(), [len(each.value or b"") for each in batch.records()]) for batch in StoredBatches(file)
        ]
    finally:
        file.close()
    assert found == [(True, [3 << 20]), (True, [1])]


def test_a_length_beyond_everything_reads_nothing(tmp_path: Path) -> None:
    content = bytearray(encode_batch(records(b"a")))
    content[8:12] = (0x7FFFFFFF).to_bytes(4, "big")
    file = FILESYSTEM.open(str(batches(tmp_path, bytes(content))), writable=False)
    try:
        walk = StoredBatches(file)
        assert not list(walk) and walk.trailing_bytes == len(content)
        with pytest.raises(CorruptLog):
            walk.batch_at(1)
    finally:
        file.close()


# --- the other files ---


@pytest.mark.parametrize("name", ["*.snapshot", "*.txnindex", "leader-epoch-checkpoint", "partition.metadata"])
def test_damaged_small_files(partition: Path, tmp_path: Path, name: str) -> None:
    found = sorted(partition.glob(name))
    original = found[0] if found else tmp_path / name
    path = tmp_path / original.name
    for content in (b"\xff\xfe garbage", (original.read_bytes() if found else b"x")[:-1] + b"\xff\xff"):
        path.write_bytes(content)
        _, complaints, wrong = dumped(path)
        assert wrong and len(complaints) == 1 and str(path) in complaints[0]


def test_missing_unknown_and_deleted_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "00000000000000000000.log.deleted").write_text("hello")
    (tmp_path / "00000000000000000000.index").write_bytes(bytes(range(8)))
    _, complaints, wrong = dumped(
        tmp_path / "missing.log", tmp_path / "00000000000000000007.log", tmp_path / "notes.txt",
        tmp_path / "00000000000000000000.log.deleted", tmp_path / "00000000000000000000.index",
    )  # fmt: skip
    assert sum(line.startswith("Ignoring unknown file") for line in complaints) == 2
    assert sum(line.startswith("Cannot read") for line in complaints) == 3 == wrong


def test_a_log_is_dumped_under_any_number_and_no_name(tmp_path: Path) -> None:
    """As Apache Kafka's tool does, which ends with an exception where a name has no offset."""
    content = encode_batch(records(b"v", offset=7), base_offset=7)
    lines, complaints, wrong = dumped(batches(tmp_path, content, name="7.log"))
    assert lines[1] == "Log starting offset: 7" and not complaints and not wrong
    for name in ("backup.log", "x.index", "y.timeindex"):
        _, complaints, wrong = dumped(batches(tmp_path, content, name=name))
        assert wrong == 1 and complaints == [
            f"Cannot read {tmp_path / name}: its name does not begin with the offset that it begins with"
        ]


def test_a_folder_with_nothing_to_dump_is_not_sound(tmp_path: Path) -> None:
    """A disk that is not mounted, or the folder above the log directories."""
    (tmp_path / "kafka" / "t-0").mkdir(parents=True)
    (tmp_path / "kafka" / "t-0" / "00000000000000000000.log").touch()
    assert dumped(tmp_path / "kafka")[1:] == ([], 0)
    _, complaints, wrong = dumped(tmp_path, tmp_path / "kafka")
    assert wrong == 1 and complaints == [
        f"{tmp_path} is neither a log directory nor the folder of a partition: it has no file to dump"
    ]


def test_a_folder_that_cannot_be_listed_does_not_end_a_dump(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"t-{number}").mkdir()
        batches(
            tmp_path / f"t-{number}", encode_batch(records(b"v")), encode_batch(records(b"v", offset=5), base_offset=5)
        )
    lines: list[str] = []
    complaints: list[str] = []
    filesystem = ControlledFileSystem()
    filesystem.on("list_directory", "*t-1", fails(errno.EIO))
    dump = Dump(filesystem, DumpOptions(deep_iteration=True), lines.append, complaints.append)
    dump.path(str(tmp_path))
    assert dump.finish() == 1
    assert complaints[0] == f"Cannot read {tmp_path / 't-1'}: {os.strerror(errno.EIO)}"
    assert sum(line.startswith("Non-consecutive offsets in ") for line in complaints) == 2
    assert sum(line.startswith("Dumping ") for line in lines) == 2


def test_an_index_without_its_log_names_the_log(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(struct.pack(">ii", 1, 100))
    assert dumped(path)[1] == [f"Cannot read {path.with_suffix('.log')}: No such file or directory"]


def test_findings_name_the_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Apache Kafka's tool does, where a file is told relatively."""
    batches(tmp_path, encode_batch(records(b"v")), encode_batch(records(b"v", offset=5), base_offset=5))
    (tmp_path / "00000000000000000000.index").write_bytes(struct.pack(">ii", 3, 0))
    monkeypatch.chdir(tmp_path)
    _, complaints, _ = dumped("00000000000000000000.log", "00000000000000000000.index", deep_iteration=True)
    assert [line for line in complaints if not line.startswith(" ")] == [
        f"Mismatches in :{tmp_path}/00000000000000000000.index",
        f"Non-consecutive offsets in {tmp_path}/00000000000000000000.log",
    ]


def test_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text("0\n1\norders 3 77\n")
    assert dumped(tmp_path)[0][-1] == "topic: orders partition: 3 offset: 77"


# --- internal topics ---


def test_committed_offsets() -> None:
    key = OffsetCommitKey(group="g", topic="ü", partition=2)
    value = OffsetCommitValue(offset=7, metadata='"\x00', commit_timestamp=5, leader_epoch=1, expire_timestamp=9)
    old = OffsetCommitValue(offset=7, metadata="", commit_timestamp=5, expire_timestamp=9)
    assert offsets_texts(Record(0, 0, key.encode_stored(1), value.encode_stored(3))) == (
        '{"type":"1","data":{"group":"g","topic":"ü","partition":2}}',
        '{"version":"3","data":{"offset":7,"leaderEpoch":1,"metadata":"\\"\\u0000","commitTimestamp":5}}',
    )
    assert '"expireTimestamp":9' in str(offsets_texts(Record(0, 0, key.encode_stored(0), old.encode_stored(1))))
    assert offsets_texts(Record(0, 0, key.encode_stored(1), None))[1] == "<DELETE>"


def test_groups_of_other_protocols_keep_their_bytes() -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=1, subscription=b"\x09\x09", assignment=b""
    )
    for protocol in ("connect", "consumer"):
        value = GroupMetadataValue(protocol_type=protocol, generation=1, protocol="p", leader=None, members=[member])
        _, text = offsets_texts(Record(0, 0, GroupMetadataKey(group="g").encode_stored(2), value.encode_stored(3)))
        assert text is not None and '"subscription":"CQk=","assignment":""' in text


def test_transactions() -> None:
    value = TransactionLogValue(
        producer_id=4, producer_epoch=1, transaction_timeout_ms=60, transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 2])],
        transaction_last_update_timestamp_ms=8, transaction_start_timestamp_ms=7,
    )  # fmt: skip
    key = TransactionLogKey(transactional_id="x").encode_stored(0)
    assert transaction_texts(Record(0, 0, key, value.encode_stored(0))) == (
        "transaction_metadata::transactionalId=x",
        "producerId:4,producerEpoch:1,state=Ongoing,partitions=[t-0,t-2],txnLastUpdateTimestamp=8,txnTimeoutMs=60",
    )
    assert transaction_texts(Record(0, 0, key, None))[1] == "<DELETE>"
    assert transaction_texts(Record(0, 0, b"\x00\x05x", None)) == ("unknown::version=5", None)


def test_states_of_share_partitions() -> None:
    """As kafka-dump-log.sh of Apache Kafka 4.3.0 shows these records."""
    names = {"group_id": "g", "topic_id": bytes([1] * 16), "partition": 3}
    batch = StoredStateBatch(first_offset=1, last_offset=2, delivery_state=2, delivery_count=1)
    snapshot = ShareSnapshotValue(
        snapshot_epoch=0, state_epoch=1, leader_epoch=2, start_offset=10, create_timestamp=5, write_timestamp=6,
        state_batches=[batch], delivery_complete_count=7,
    )  # fmt: skip
    update = ShareUpdateValue(snapshot_epoch=0, leader_epoch=2, start_offset=10, state_batches=[])
    key = ShareSnapshotKey(**names).encode_stored(0)
    assert share_texts(Record(0, 0, key, snapshot.encode_stored(0))) == (
        '{"type":"0","data":{"groupId":"g","topicId":"AQEBAQEBAQEBAQEBAQEBAQ","partition":3}}',
        '{"version":"0","data":{"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":2,"startOffset":10,"deliveryCompleteCount":7,'
        '"createTimestamp":5,"writeTimestamp":6,'
        '"stateBatches":[{"firstOffset":1,"lastOffset":2,"deliveryState":2,"deliveryCount":1}]}}',
    )
    assert share_texts(Record(0, 0, ShareUpdateKey(**names).encode_stored(1), update.encode_stored(0)))[1] == (
        '{"version":"0","data":{"snapshotEpoch":0,"leaderEpoch":2,"startOffset":10,"stateBatches":[]}}'
    )
    assert share_texts(Record(0, 0, key, None))[1] == "<DELETE>"


@pytest.mark.parametrize("texts", [offsets_texts, transaction_texts, share_texts])
@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x01\xff", b"\x00\x00\xff\xff", b"\x7f\x7f"])
def test_records_that_do_not_belong_there(texts, key) -> None:  # type: ignore[no-untyped-def]
    text, payload = texts(Record(3, 0, key, b"?"))
    assert text is not None and payload is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x04\xd8\xed\xb6\0", "\x04\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\0"),
        (b"\xed\xa0\x80a", "\N{REPLACEMENT CHARACTER}a"),
        (b"\xed\xbf", "\N{REPLACEMENT CHARACTER}"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xed\xed\xa0\xf0", "\N{REPLACEMENT CHARACTER}" * 3),
        (b"\xe0\x9f\xf4\x90", "\N{REPLACEMENT CHARACTER}" * 4),
        (b"\xf1\x80\x80a\xc3\xb6", "\N{REPLACEMENT CHARACTER}a\xf6"),
    ],
)
def test_bytes_that_are_no_text_are_replaced_as_java_does(content: bytes, expected: str) -> None:
    """As Java 17 prints these bytes."""
    assert plain_texts(Record(0, 0, None, content, [])) == (None, expected)
