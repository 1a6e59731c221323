"""`barnabas dump-log` beside Apache Kafka's DumpLogSegments, over directories that a real Apache Kafka has written."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import kafka_directory
from tests.interop.conftest import need_java
from tests.interop.dumping import SEGMENT_FILES, lines_of, ours, reference
from tests.interop.kafka_directory import log_files
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(log directories after a clean stop, the same after a kill)."""
    need_java()
    folder = tmp_path_factory.mktemp("dumped")
    (folder / "kafka").mkdir()
    log_dirs = f"{folder}/clean/one,{folder}/clean/two"
    with ZooKeeper() as zookeeper:
        kafka = KafkaServer(
            zookeeper.connect, folder=folder / "kafka", settings={**kafka_directory.SETTINGS, "log.dirs": log_dirs}
        )
        with kafka:
            kafka_directory.fill(kafka.bootstrap_servers)
            kafka_directory.wait_until_compacted(kafka.bootstrap_servers, folders(folder / "clean"))
            kafka_directory.seal_compacted(kafka.bootstrap_servers)
            set_aside = shutil.ignore_patterns("*-delete", "*.deleted", "*.tmp")  # these go at any moment
            shutil.copytree(folder / "clean", folder / "running", ignore=set_aside)
    return folder / "clean", folder / "running"


def folders(directory: Path) -> list[Path]:
    return [directory / "one", directory / "two"]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--deep-iteration",),
        ("--print-data-log",),
        ("--print-data-log", "--skip-record-metadata"),
        ("--deep-iteration", "--max-bytes", "3000"),
        ("--max-bytes", "0"),
        ("--key-decoder-class", "kafka.serializer.StringDecoder", "--value-decoder-class"),
        ("--verify-index-only",),
        ("--index-sanity-check",),
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_every_file_after_a_clean_stop(directories: tuple[Path, Path], options: tuple[str, ...]) -> None:
    files = log_files(folders(directories[0]), *SEGMENT_FILES)
    kinds = {path.suffix for path in files}
    assert kinds == set(SEGMENT_FILES) and len(files) > 100
    printed, complaints = ours(files, *options)
    expected, expected_complaints = reference(files, *options)
    assert printed == expected
    assert sorted(complaints) == sorted(_without_false_alarms(expected_complaints))


def _without_false_alarms(complaints: list[str]) -> list[str]:
    """Apache Kafka's tool misses the timestamp of a batch whose records were compacted away; its header has it."""
    kept: list[str] = []
    for line in complaints:
        if line.endswith("log timestamp: -1"):
            if kept[-1].startswith("Found timestamp mismatch"):
                kept.pop()
        else:
            kept.append(line)
    return kept


def _without_more_words(complaints: list[str]) -> list[str]:
    """Apache Kafka's tool tells wrong checksums and torn ends among its lines alone."""
    return [line for line in complaints if not line.endswith(("has a wrong checksum", "are no whole batch"))]


def test_internal_topics(directories: tuple[Path, Path]) -> None:
    for topic, option in (
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
    ):
        files = [path for path in log_files(folders(directories[0]), ".log") if path.parent.name.startswith(topic)]
        printed, complaints = ours(files, option)
        expected, expected_complaints = reference(files, option)
        assert printed == expected and complaints == expected_complaints
        less = ("--remote-log-metadata-decoder", "--cluster-metadata-decoder", "--value-decoder-class", "no.Such")
        assert (printed, complaints) == ours(files, *less, option) == reference(files, *less, option)
        assert sum("payload: " in line for line in printed) > 3


def test_log_find_finds_every_record(directories: tuple[Path, Path]) -> None:
    """As many as Apache Kafka's tool prints, in every codec and kind of batch."""
    printed, _ = reference(log_files(folders(directories[0]), ".log"), "--deep-iteration")
    expected: set[tuple[str, int]] = set()
    folder = ""
    for line in printed:
        if line.startswith("Dumping "):
            folder = Path(line.removeprefix("Dumping ")).parent.name
        elif line.startswith("| offset: ") and "endTxnMarker" not in line:
            expected.add((folder, int(line.split()[2])))
    command = [sys.executable, "-m", "barnabas", "log", "find", *map(str, folders(directories[0]))]
    rows = lines_of([*command, "--limit", "1000000", "--json"])[0]
    found = [json.loads(row) for row in rows if row]
    assert {(f"{row['topic']}-{row['partition']}", row["offset"]) for row in found} == expected
    assert len(found) == len(expected) > 2000


def test_files_of_a_running_broker(directories: tuple[Path, Path]) -> None:
    """Indexes of active segments are full of zeros; both tools find the entries before them."""
    files = log_files(folders(directories[1]), *SEGMENT_FILES)
    padded = {path for path in files if path.stat().st_size > 60_000 and "index" in path.suffix}
    assert padded
    printed, complaints = ours(files, "--deep-iteration")
    assert not [line for line in complaints if "Mismatches" in line or "not found" in line], complaints
    with_entries = [path for path in files if path not in padded or not _begins_with_zeros(path)]
    printed, _ = ours(with_entries, "--deep-iteration")
    expected, _ = reference(with_entries, "--deep-iteration")
    assert printed == expected


def _begins_with_zeros(path: Path) -> bool:
    with path.open("rb") as file:
        return not any(file.read(12))


def test_damaged_files(directories: tuple[Path, Path], tmp_path: Path) -> None:
    """What Apache Kafka's tool can say of them, ours says, too; where that one ends with an exception ours goes on."""
    source = next(path for path in log_files(folders(directories[0]), ".log") if path.parent.name == "codec-none-0")
    assert source.stat().st_size > 4000

    def copy(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(source.parent, folder)
        return folder / source.name

    flipped, cut, indexed = copy("flipped-0"), copy("cut-0"), copy("indexed-0")
    content = bytearray(flipped.read_bytes())
    content[100] ^= 1  # in the first batch's records
    flipped.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-5])
    index = indexed.with_suffix(".index")
    entries = bytearray(index.read_bytes())
    entries[3] ^= 1  # an offset that is not that of its batch
    index.write_bytes(entries)
    for files in ([flipped], [cut], [index]):
        printed, complaints = ours(files)
        expected, expected_complaints = reference(files)
        assert printed == expected and _without_more_words(complaints) == expected_complaints
    times = copy("times-0").with_suffix(".timeindex")
    rows = list(struct.iter_unpack(">qi", times.read_bytes()))
    (first, first_offset), (second, second_offset), (third, third_offset), *_ = rows
    lying = [
        (first, 1 << 30),
        (second + 7, second_offset),
        (second, third_offset),
        (third + 9, -5),
        (first, first_offset),
    ]
    times.write_bytes(b"".join(struct.pack(">qi", *row) for row in (*lying, *rows, (1, 0), *rows)))
    assert ours([times]) == reference([times])
    assert len(ours([times])[1]) > 8
    ends = copy("ends-0")
    content = bytearray(ends.read_bytes() + b"\xff" * 17)
    struct.pack_into(">i", content, 53, -33_554_433)  # the first batch's sequence
    ends.write_bytes(content)
    printed, complaints = ours([ends], "--deep-iteration")
    assert (printed, _without_more_words(complaints)) == reference([ends], "--deep-iteration")
    assert "Found 17 invalid bytes" in "\n".join(printed)
    assert "the last 17 bytes, from position" in "\n".join(complaints)
    printed, complaints = ours([flipped])
    assert "isvalid: false" in "\n".join(printed)
    assert re.search(
        r"flipped-0/0+\.log: the batch of offsets 0 to \d+ at position 0 has a wrong", "\n".join(complaints)
    )
    assert re.search(r"Found \d+ invalid bytes at the end", "\n".join(ours([cut])[0]))
    assert "Mismatches in" in "\n".join(ours([index])[1])
    garbage = copy("garbage-0")
    garbage.write_bytes(b"\xff" * 1000)
    printed, complaints = ours([garbage, source])
    assert "smaller than the minimum record overhead" in "\n".join(complaints)
    assert printed[-4:] == ours([source])[0][-4:]


def test_message_sets_of_old_formats(tmp_path: Path) -> None:
    """With a protocol before 3.0 Apache Kafka still writes formats v0 and v1, when a topic asks for them."""
    need_java()
    settings = {**kafka_directory.SETTINGS, "inter.broker.protocol.version": "2.8"}
    (tmp_path / "kafka").mkdir()
    with ZooKeeper() as zookeeper:
        kafka = KafkaServer(zookeeper.connect, folder=tmp_path / "kafka", settings=settings)
        with kafka:
            kafka_directory.fill_old(kafka.bootstrap_servers)
    files = log_files([kafka.data], *SEGMENT_FILES)
    for options in ((), ("--deep-iteration",), ("--print-data-log",)):
        printed, complaints = ours(files, *options)
        expected, expected_complaints = reference(files, *options)
        assert printed == expected
        assert sorted(complaints) == sorted(expected_complaints)
        for magic in (0, 1):
            for codec in ("none", "gzip", "snappy", "lz4"):
                assert any(f"magic: {magic} compresscodec: {codec}" in line for line in printed)


def test_a_whole_data_directory(directories: tuple[Path, Path]) -> None:
    clean = folders(directories[0])
    printed, complaints = ours(clean, "--deep-iteration")
    dumped = {line.removeprefix("Dumping ") for line in printed if line.startswith("Dumping ")}
    assert dumped >= {str(path) for path in log_files(clean, *SEGMENT_FILES)}
    assert "epoch: 0 startOffset: 0" in printed
    assert any(line.startswith("topic: shortened partition: 0 offset: 137") for line in printed)
    assert not [line for line in complaints if "Corrupt" in line or "Cannot" in line]


def test_beside_a_broker_that_writes(tmp_path: Path) -> None:
    need_java()
    with ZooKeeper() as zookeeper, KafkaServer(zookeeper.connect, settings=kafka_directory.SETTINGS) as kafka:
        kafka_directory.fill(kafka.bootstrap_servers)
        for _ in range(3):
            result = subprocess.run(
                [sys.executable, "-m", "barnabas", "dump-log", "--files", str(kafka.data), "--print-data-log"],
                capture_output=True, timeout=60, check=False,
            )  # fmt: skip
            assert b"Traceback" not in result.stderr
            assert b"isvalid: false" not in result.stdout
        assert wait_until(lambda: kafka.is_running, 1)
