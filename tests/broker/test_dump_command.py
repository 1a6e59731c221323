"""The options of `dump-log`, as Apache Kafka's tool takes them, what is said of those that are not supported, and an output
that takes no more."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from barnabas.commands import main
from barnabas.launch import command
from protocol.records.record import Record, encode_batch

TODAY = "org.apache.kafka.tools.api."
OLD = "kafka.serializer."
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> str:
    """One record: a key of 9 bytes that begins with a number, and a text."""
    path = tmp_path / f"{0:020d}.log"
    key = struct.pack(">q", 0x61626364_65666768) + b"i"
    path.write_bytes(encode_batch([Record(0, 1000, key, b"value", [])]))
    return str(path)


def dumped(capsys: Captured, *arguments: str) -> tuple[int, list[str], str]:
    """(exit code, lines printed, complaints)."""
    code = main(["dump-log", *arguments])
    printed, complaints = capsys.readouterr()
    return code, printed.splitlines(), complaints


@pytest.mark.parametrize("option", ["--key-decoder-class", "--value-decoder-class"])
def test_a_decoder_class_prints_the_data(log: str, option: str, capsys: Captured) -> None:
    """Also where no name follows; the default is strings."""
    expected = dumped(capsys, "--files", log, "--print-data-log")
    assert expected[1][-1].endswith(" key: abcdefghi payload: value")
    assert dumped(capsys, "--files", log, option) == expected
    assert dumped(capsys, option, "--files", log) == expected
    assert dumped(capsys, "--files", log, option, TODAY + "StringDecoder") == expected


def test_decoders_of_numbers(log: str, capsys: Captured) -> None:
    """They take the bytes that they need, and no more."""
    for name, number in (("IntegerDecoder", 0x61626364), ("LongDecoder", 0x6162636465666768)):
        lines = dumped(capsys, "--files", log, "--key-decoder-class", TODAY + name)[1]
        assert lines[-1].endswith(f" key: {number} payload: value")
    code, lines, _ = dumped(capsys, "--files", log, "--value-decoder-class", TODAY + "LongDecoder")
    assert lines[-1].endswith(" key: Error at offset 0, skipping. It has too few bytes for its decoder.") and code == 0


def test_old_names_of_decoders_are_told_before_each_log(log: str, capsys: Captured) -> None:
    old = ("--key-decoder-class", OLD + "IntegerDecoder", "--value-decoder-class", OLD + "StringDecoder")
    code, lines, complaints = dumped(capsys, "--files", f"{log},{log}", *old)
    notes = [
        f"{OLD}{name} is deprecated. Please use {TODAY}{name} instead" for name in ("StringDecoder", "IntegerDecoder")
    ]
    assert lines[1:3] == lines[7:9] == notes and lines[3] == "Log starting offset: 0"
    assert lines[-1].endswith(f" key: {0x61626364} payload: value") and not code and not complaints


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--value-decoder-class", "nope.Nope"], "--value-decoder-class nope.Nope is not supported"),
        (
            ["--key-decoder-class", TODAY + "DefaultDecoder"],
            f"--key-decoder-class {TODAY}DefaultDecoder is not supported",
        ),
        (["--cluster-metadata-decoder"], "--cluster-metadata-decoder is not supported"),
        (["--remote-log-metadata-decoder"], "--remote-log-metadata-decoder is not supported"),
    ],
)
def test_what_is_not_supported_is_told_in_a_line(log: str, options: list[str], told: str, capsys: Captured) -> None:
    code, lines, complaints = dumped(capsys, "--files", log, *options)
    assert code == 2 and not lines and complaints.count("\n") == 1 and complaints.startswith(f"barnabas: {told}: ")


def test_of_several_decoders_the_first_one_counts(log: str, capsys: Captured) -> None:
    """Whatever their order on the line: offsets, transactions, metadata, share groups, classes."""
    offsets = dumped(capsys, "--files", log, "--offsets-decoder")
    transactions = dumped(capsys, "--files", log, "--transaction-log-decoder")
    assert offsets[0] == transactions[0] == 0 and offsets != transactions
    assert dumped(capsys, "--files", log, "--transaction-log-decoder", "--offsets-decoder") == offsets
    assert dumped(capsys, "--cluster-metadata-decoder", "--files", log, "--transaction-log-decoder") == transactions
    assert dumped(capsys, "--files", log, "--value-decoder-class", "nope.Nope", "--offsets-decoder") == offsets
    shares = dumped(capsys, "--files", log, "--share-group-state-decoder", "--value-decoder-class", "nope.Nope")
    assert shares[0] == 0 and shares != transactions
    assert dumped(capsys, "--files", log, "--share-group-state-decoder", "--transaction-log-decoder") == transactions


def test_no_bytes_of_a_log(log: str, capsys: Captured) -> None:
    assert dumped(capsys, "--files", log, "--max-bytes", "0") == (0, [f"Dumping {log}", "Log starting offset: 0"], "")
    assert dumped(capsys, "--files", log, "--max-bytes", "-1")[0] == 2


def test_the_version(capsys: Captured) -> None:
    code, lines, _ = dumped(capsys, "--version")
    assert code == 0 and len(lines) == 1 and lines[0].startswith("barnabas ")


def test_files_that_are_named_one_by_one(log: str, capsys: Captured) -> None:
    expected = dumped(capsys, "--files", f"{log},{log}")
    assert len(expected[1]) == 6
    assert dumped(capsys, "--files", log, "--files", log) == expected


@pytest.mark.parametrize("files", ["", ",", " , "])
def test_no_file(files: str, capsys: Captured) -> None:
    assert dumped(capsys, "--files", files) == (2, [], "barnabas: --files names no file\n")


@pytest.mark.parametrize("name", ["missing", "missing.log", "notes.txt", f"{0:020d}.log.deleted", f"{0:020d}.index"])
def test_a_missing_file_is_told_whatever_its_name(tmp_path: Path, name: str, capsys: Captured) -> None:
    path = tmp_path / name
    code, lines, complaints = dumped(capsys, "--files", str(path))
    assert code == 1 and lines == [f"Dumping {path}"]
    assert complaints == f"Cannot read {path}: No such file or directory\n"


def run(*arguments: str, **streams: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), text=True, timeout=60, check=False, **streams)


def closed_pipe() -> int:
    """The end to write to of a pipe that nobody reads any more."""
    end, writable = os.pipe()
    os.close(end)
    return writable


@pytest.mark.parametrize(
    "arguments", [["dump-log", "--files", "{log}"], ["log", "find", "{folder}"], ["settings"]], ids=lambda each: each[0]
)
def test_an_output_that_takes_no_more_blames_no_file(tmp_path: Path, arguments: list[str]) -> None:
    """A reader that has seen enough is no failure, a disk that is full is one; neither is the data's."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / f"{0:020d}.log"
    log.write_bytes(b"".join(encode_batch([Record(at, 1, b"k", b"v" * 99, [])], base_offset=at) for at in range(2000)))
    line = [each.format(log=log, folder=tmp_path) for each in arguments]
    pipe = closed_pipe()
    try:
        ended = run(*line, stdout=pipe, stderr=subprocess.PIPE)
    finally:
        os.close(pipe)
    assert (ended.returncode, ended.stderr) == (0, "")
    with open("/dev/full", "wb") as full:
        ended = run(*line, stdout=full.fileno(), stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (1, "barnabas: the output cannot be written: No space left on device\n")
