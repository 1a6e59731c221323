"""`dump-log` over offset and time indexes: what is compared with the log, and what is told of it, in which order."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

from protocol.records.record import encode_batch
from storage.offline.dump_findings import KEPT, Findings
from tests.storage.logs import append, config, open_log, world
from tests.storage.offline.dumping import batches, dumped, records


def indexed(folder: Path) -> Path:
    """A log of one segment with full indexes."""

    async def write() -> None:
        async with world(str(folder)) as made:
            log = await open_log(made, str(folder), config(index_interval_bytes=100))
            for number in range(40):
                await append(log, f"value {number}" * 5, timestamp=1_000_000 + number)
            await log.close()

    asyncio.run(write())
    return folder / "t-0" / "00000000000000000000.index"


def test_sound_indexes(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    for path in (index, index.with_suffix(".timeindex")):
        lines, complaints, wrong = dumped(path)
        assert len(lines) > 10 and not complaints and not wrong
        assert dumped(path, verify_index_only=True)[0] == [f"Dumping {path}"]
        assert dumped(path, index_sanity_check=True)[0][-1] == f"{path} passed sanity check."


def test_an_index_that_is_filled_up_with_zeros(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    for path in (index, index.with_suffix(".timeindex")):
        expected = dumped(path)
        path.write_bytes(path.read_bytes() + bytes(12 * 8 * 100))
        assert dumped(path) == expected
        path.write_bytes(bytes(12 * 8 * 100))
        lines, complaints, wrong = dumped(path)
        assert not complaints and not wrong
        assert lines[1:] == ([f"{path} is empty."] if path.suffix == ".index" else [])


def test_entries_that_lie(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    times = index.with_suffix(".timeindex")
    entries = bytearray(index.read_bytes())
    entries[3] += 1  # the offset of the first one
    entries[12:16] = (0x7000_0000).to_bytes(4, "big")  # the position of the second one
    index.write_bytes(entries)
    complaints, wrong = dumped(index)[1:]
    assert complaints[0] == f"Mismatches in :{index}" and complaints[1].endswith("log offset: -1") and wrong == 2
    entries = bytearray(times.read_bytes())
    entries[7] ^= 1  # the timestamp of the first one
    entries[20:24] = (0x7000_0000).to_bytes(4, "big")  # the offset of the second one
    times.write_bytes(entries)
    complaints, wrong = dumped(times)[1:]
    assert f"Found timestamp mismatch in :{times}" in complaints and wrong == 2
    assert complaints[-2:] == [
        "The following indexed offsets are not found in the log.",
        f"Indexed offset: {0x7000_0000}, found log offset: -1",
    ]
    times.write_bytes(times.read_bytes()[:-1])
    assert "no multiple of 12" in dumped(times, index_sanity_check=True)[1][0]


def time_entries(path: Path) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">qi", path.read_bytes()))


def test_entries_behind_a_wrong_one_are_still_compared(tmp_path: Path) -> None:
    """Each entry of a time index is looked for in the whole log."""
    times = indexed(tmp_path).with_suffix(".timeindex")
    entries = time_entries(times)
    (first, _), (second, offset), (third, _), *_ = entries
    entries[0] = first, 0x7000_0000  # behind everything
    entries[1] = second + 7, offset
    entries[2] = second, entries[2][1]
    times.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    lines, complaints, wrong = dumped(times)
    assert lines[1:] == [f"timestamp: {timestamp} offset: {offset}" for timestamp, offset in entries]
    assert sorted(complaints) == sorted(
        [
            "The following indexed offsets are not found in the log.",
            f"Indexed offset: {0x7000_0000}, found log offset: -1",
            f"Found timestamp mismatch in :{times}",
            f"  Index timestamp: {second + 7}, log timestamp: {second}",
            f"  Index timestamp: {second}, log timestamp: {third}",
            f"Found out of order timestamp in :{times}",
            f"  Index timestamp: {second}, Previously indexed timestamp: {second + 7}",
        ]
    )
    assert wrong == 4


def test_entries_that_come_twice(tmp_path: Path) -> None:
    times = indexed(tmp_path).with_suffix(".timeindex")
    first, last = time_entries(times)[0][0], time_entries(times)[-1][0]
    times.write_bytes(times.read_bytes() * 2)
    assert dumped(times)[1:] == (
        [
            f"Found out of order timestamp in :{times}",
            f"  Index timestamp: {first}, Previously indexed timestamp: {last}",
        ],
        1,
    )


def test_offsets_in_an_index_have_a_sign(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    times = index.with_suffix(".timeindex")
    index.write_bytes(index.read_bytes() + struct.pack(">ii", -9, -1))
    times.write_bytes(times.read_bytes() + struct.pack(">qi", 1 << 60, -9))
    lines, complaints, wrong = dumped(index)
    assert lines[-1] == "offset: -9 position: -1" and wrong == 1
    assert complaints == [f"Mismatches in :{index}", "  Index offset: -9, log offset: -1"]
    lines, complaints, wrong = dumped(times)
    assert lines[-1] == f"timestamp: {1 << 60} offset: -9" and wrong == 1
    assert complaints[1].startswith("Indexed offset: -9, found log offset: ") and not complaints[1].endswith(" -1")
    for path in (index, times):
        _, complaints, wrong = dumped(path, index_sanity_check=True)
        assert "its last offset -9 is less than its base offset 0" in complaints[0] and wrong == 1


def test_a_last_timestamp_below_the_first_one_is_no_sane_index(tmp_path: Path) -> None:
    times = indexed(tmp_path).with_suffix(".timeindex")
    (first, _), *_, (_, offset) = time_entries(times)
    times.write_bytes(times.read_bytes() + struct.pack(">qi", first - 1, offset + 1))
    _, complaints, wrong = dumped(times, index_sanity_check=True)
    assert f"its last timestamp {first - 1} is less than its first one {first}" in complaints[0] and wrong == 1


def test_an_index_ends_at_an_entry_without_offset(tmp_path: Path) -> None:
    """As in Apache Kafka, also when the other number of it is none; only the first entry may be such a one."""
    index = indexed(tmp_path)
    times = index.with_suffix(".timeindex")
    for path, entry in ((index, struct.pack(">ii", 0, 77)), (times, struct.pack(">qi", 77, 0))):
        content, shown = path.read_bytes(), dumped(path)[0]
        path.write_bytes(content + entry + content)
        assert dumped(path) == (shown, [], 0)
        path.write_bytes(bytes(len(entry)) + content)
        assert dumped(path)[0][2:] == shown[1:]


def test_offsets_at_the_end_of_all_numbers(tmp_path: Path) -> None:
    name = f"{2**63 - 2:020d}"
    log = batches(tmp_path, encode_batch(records(b"a", b"b", b"c")), name=f"{name}.log")
    content = bytearray(log.read_bytes())
    struct.pack_into(">q", content, 0, 2**63 - 2)
    log.write_bytes(content)
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 2, 0))
    log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1002, 2))
    for suffix in (".index", ".timeindex"):
        lines, complaints, wrong = dumped(log.with_suffix(suffix))
        assert f"offset: {-(2**63)}" in lines[1] and not complaints and not wrong


def test_a_batch_that_has_lost_its_offset_spoils_no_other_entry(tmp_path: Path) -> None:
    times = indexed(tmp_path).with_suffix(".timeindex")
    log = times.with_suffix(".log")
    content = bytearray(log.read_bytes())
    struct.pack_into(">q", content, 0, 1_000)
    log.write_bytes(content)
    assert dumped(times)[1:] == ([], 0)  # the first batch has no entry
    struct.pack_into(">q", content, int.from_bytes(content[8:12], "big") + 12, 2_000)
    log.write_bytes(content)
    _, complaints, wrong = dumped(times)
    assert complaints[-1] == "Indexed offset: 1, found log offset: 1000" and len(complaints) == 2 and wrong == 1


def test_the_order_of_what_is_told(tmp_path: Path) -> None:
    """Kind by kind, and of mismatches and gaps the last one first."""
    one, two = (tmp_path / name for name in ("one", "two"))
    paths = []
    for folder in (one, two):
        folder.mkdir()
        index = indexed(folder)
        entries = list(struct.iter_unpack(">ii", index.read_bytes()))[:2]
        index.write_bytes(b"".join(struct.pack(">ii", offset + 50, position) for offset, position in entries))
        times = index.with_suffix(".timeindex")
        (timestamp, offset), *_ = time_entries(times)
        times.write_bytes(struct.pack(">qiqi", timestamp, 60, timestamp + 1, offset))
        paths += [times, index]
    assert dumped(*paths)[1] == [
        *(
            line
            for path in (paths[1], paths[3])
            for line in (
                f"Mismatches in :{path}",
                "  Index offset: 52, log offset: 2",
                "  Index offset: 51, log offset: 1",
            )
        ),
        *(
            line
            for path in (paths[0], paths[2])
            for line in (
                f"Found timestamp mismatch in :{path}",
                f"  Index timestamp: {timestamp + 1}, log timestamp: {timestamp}",
            )
        ),
        *("The following indexed offsets are not found in the log.", "Indexed offset: 60, found log offset: -1") * 2,
    ]


def test_findings_are_bounded() -> None:
    findings = Findings()
    for number in range(KEPT + 500):
        findings.index_mismatch("i", number, -1)
    told: list[str] = []
    findings.tell(told.append)
    assert len(told) == KEPT + 2 and told[-1] == "  and 500 more" and findings.count == KEPT + 500
