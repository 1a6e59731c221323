"""Whole lines of several processes, each with its process, on an output that may be slow or broken."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas.supervisor import merged_log
from barnabas.supervisor.merged_log import LINE_MAX_BYTES, Lines, LogOutput

PATIENCE_S = 60


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"one\ntwo\n"], [b"broker 1 | one\n", b"broker 1 | two\n"]),
        ([b"o", b"ne", b"\nt"], [b"broker 1 | one\n", b"broker 1 | t\n"]),
        ([b"\n"], [b"broker 1 | \n"]),
        ([], []),
        ([b"x" * LINE_MAX_BYTES + b"y\n"], [b"broker 1 | " + b"x" * LINE_MAX_BYTES + b"\n", b"broker 1 | y\n"]),
    ],
)
def test_lines_are_whole(pieces: list[bytes], expected: list[bytes]) -> None:
    lines = Lines("broker 1", 8, as_json=False)
    assert [line for piece in pieces for line in lines.feed(piece)] + lines.end() == expected


def test_a_shorter_name_is_as_wide() -> None:
    assert Lines("store", 8, as_json=False).feed(b"x\n") == [b"store    | x\n"]


def test_json_has_a_field_and_stays_json() -> None:
    first, second = Lines("broker 1", 8, as_json=True).feed(b'{"level":"info"}\nSegmentation "fault"\n')
    assert json.loads(first) == {"process": "broker 1", "level": "info"}
    assert json.loads(second) == {"process": "broker 1", "event": 'Segmentation "fault"'}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


def test_who_does_not_read_blocks_nobody_and_learns_what_was_dropped(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = pipe
    monkeypatch.setattr(merged_log, "WAITING_MAX_BYTES", 8192)

    async def scenario() -> bytes:
        output = LogOutput(writer, asyncio.get_running_loop())
        for number in range(100):
            output.add(b"%03d" % number + b"x" * 996 + b"\n")
        got = b""
        async with asyncio.timeout(PATIENCE_S):
            while b"dropped" not in got:
                with suppress(BlockingIOError):
                    got += os.read(reader, 65_536)
                await asyncio.sleep(0)
        output.close()
        return got

    lines = asyncio.run(scenario()).split(b"\n")
    kept = [int(line[:3]) for line in lines if line[3:4] == b"x"]
    assert kept == list(range(len(kept))), "in order, and whole"
    assert f"log lines dropped, they were not read in time: lines={100 - len(kept)}".encode() in lines


def test_an_output_whose_reader_has_ended_is_left_alone(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    async def scenario() -> None:
        output = LogOutput(writer, asyncio.get_running_loop())
        for _ in range(3):
            output.add(b"x\n")
        output.close()

    try:
        asyncio.run(scenario())
    finally:
        signal.signal(signal.SIGPIPE, before)
