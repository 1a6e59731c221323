"""`log find`: what it answers is what a walk over every record answers, whatever index, codec or format stands between."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from barnabas.launch import command
from broker.commands.log_search import search
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch
from runtime.disk.os_filesystem import OsFileSystem
from storage.offline.log_find import MAX_MATCHES, Found, Match, Query, Task, plan, scan
from tests.doubles.file_system import ControlledFileSystem, fails
from tests.storage.logs import append_records, config, open_log, world

FILESYSTEM = OsFileSystem()
START_MS = 1_700_000_000_000


def record(number: int) -> Record:
    """Keys repeat, times fall now and then, some have headers."""
    headers: list[tuple[str, bytes | None]] = [("number", b"%d" % number), ("flag", None)] if number % 3 == 0 else []
    key = None if number % 7 == 0 else b"key-%d" % (number % 20)
    return Record(number, START_MS + number * 1000 - (number % 5) * 2500, key, b"value %d" % number * 3, headers)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """A log directory with the partition t-0 in many segments, every codec in it; and its records."""
    folder = tmp_path_factory.mktemp("find")
    written = [record(number) for number in range(600)]

    async def write() -> None:
        async with world(str(folder)) as made:
            settings = config(segment_bytes=3000, index_interval_bytes=200, compression_type="producer")
            log = await open_log(made, str(folder), settings)
            for at in range(0, len(written), 6):
                codec = Compression(at // 6 % len(Compression))
                await append_records(log, bytearray(encode_batch(written[at : at + 6], compression=codec)))
            await log.close()

    asyncio.run(write())
    assert len(list((folder / "t-0").glob("*.log"))) > 5
    return folder, written


def found(paths: list[Path], query: Query, jobs: int = 1, **chosen: object) -> tuple[list[Match], list[str], int]:
    """(matches, problems, bytes scanned)."""
    problems: list[str] = []
    tasks = plan(FILESYSTEM, list(map(str, paths)), query, problem=problems.append, **chosen)  # type: ignore[arg-type]
    answers: list[Found] = list(search(tasks, jobs))
    return (
        [match for answer in answers for match in answer.matches],
        problems + [problem for answer in answers for problem in answer.problems],
        sum(answer.scanned_bytes for answer in answers),
    )


QUERIES = [
    Query(),
    Query(key=b"key-3"),
    Query(key=b"key"),
    Query(key=b""),
    Query(header=("number", b"300")),
    Query(header=("number", None)),
    Query(header=("flag", b"300")),
    Query(key=b"key-9", header=("flag", None)),
    Query(from_ms=START_MS + 300_000),
    Query(to_ms=START_MS + 20_000),
    Query(from_ms=START_MS + 100_000, to_ms=START_MS + 110_000),
    Query(key=b"key-4", from_ms=START_MS + 590_000),
    Query(from_ms=START_MS + 10_000_000),
]


@pytest.mark.parametrize("jobs", [1, 3])
def test_it_finds_what_a_walk_finds(data: tuple[Path, list[Record]], jobs: int) -> None:
    folder, written = data
    for query in QUERIES if jobs == 1 else QUERIES[:3]:
        matches, problems, _ = found([folder], query, jobs)
        assert not problems
        assert [match.offset for match in matches] == [each.offset for each in written if query.matches(each)], query
    match = found([folder], Query(key=b"key-3"), jobs)[0][0]
    first = written[match.offset]
    assert (match.timestamp, match.value, match.headers) == (first.timestamp, first.value, first.headers)
    assert (match.topic, match.partition) == ("t", 0) and Path(match.path).exists()


def test_the_time_index_spares_what_is_older(data: tuple[Path, list[Record]]) -> None:
    folder, _written = data
    query = Query(from_ms=START_MS + 550_000)
    _, _, with_index = found([folder], query)
    _, _, without = found([folder], Query(from_ms=query.from_ms, use_index=False))
    assert with_index < without / 4


def test_damaged_indexes_hide_nothing(data: tuple[Path, list[Record]], tmp_path: Path) -> None:
    folder, written = data
    names = [path.name for path in (folder / "t-0").iterdir() if path.suffix in (".index", ".timeindex")]
    chance = random.Random(3)
    for _ in range(60):
        target = tmp_path / "t-0"
        target.mkdir(exist_ok=True)
        for path in (folder / "t-0").iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        for name in chance.sample(names, 3):
            content = bytearray((target / name).read_bytes())
            match chance.randrange(3):
                case 0 if content:
                    del content[chance.randrange(len(content)) :]
                case 1:
                    content = bytearray(chance.randbytes(len(content)))
                case _:
                    content += bytes(1200)
            (target / name).write_bytes(content)
        query = Query(from_ms=START_MS + chance.randrange(600_000))
        matches, problems, _ = found([tmp_path], query)
        assert [match.offset for match in matches] == [each.offset for each in written if query.matches(each)]
        assert not problems


def test_damaged_batches_are_told(data: tuple[Path, list[Record]], tmp_path: Path) -> None:
    folder, _written = data
    target = tmp_path / "t-0"
    target.mkdir()
    source = sorted((folder / "t-0").glob("*.log"))[0]
    content = bytearray(source.read_bytes())
    content[100] ^= 1
    (target / source.name).write_bytes(content)
    matches, problems, _ = found([target], Query())
    assert len(problems) == 1 and "position 0 has a wrong checksum" in problems[0]
    assert next(match.offset for match in matches) == 6
    (target / source.name).write_bytes(bytes(100) + content)
    assert "the rest of the segment was not searched" in found([target], Query())[1][0]


def test_the_end_of_the_last_segment_is_not_passed_over(tmp_path: Path) -> None:
    """Though a broker may be about to write there, what is damaged looks no different."""
    first, second = (
        encode_batch([Record(at, START_MS, b"k", b"v", [])], base_offset=at, partition_leader_epoch=0) for at in (0, 1)
    )
    long = bytearray(second)
    long[8:12] = (0x7FFFFFFF).to_bytes(4, "big")
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(first + long + second)
    matches, problems, _ = found([tmp_path], Query(key=b"k"))
    assert [match.offset for match in matches] == [0]
    what = f"the last {2 * len(second)} bytes, from position {len(first)} on, are no whole batch, not searched"
    assert problems == [f"{path}: {what}"]


def test_a_folder_that_was_set_aside_is_searched_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are where one looks for records that are missing; and any folder may be told as the one where one is."""
    batch = encode_batch([Record(0, START_MS, b"k", b"v", [])])
    for name in ("t-3", *(f"t-3.{'0af' * 10}00-{kind}" for kind in ("delete", "stray", "future"))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(batch)
        monkeypatch.chdir(folder)
        for path in (folder, Path()):
            matches, problems, _ = found([path], Query(key=b"k"))
            assert [(match.topic, match.partition) for match in matches] == [("t", 3)] and not problems
    assert len(found([tmp_path], Query(key=b"k"))[0]) == 1


def test_where_there_is_nothing_to_search_is_told(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(encode_batch([Record(0, START_MS, b"k", b"v", [])]))
    (tmp_path / "elsewhere").mkdir()
    matches, problems, _ = found([tmp_path / "elsewhere", tmp_path], Query(key=b"k"))
    assert len(matches) == 1
    assert problems == [f"{tmp_path / 'elsewhere'}: neither a log directory with partitions nor the folder of one"]
    assert not found([tmp_path], Query(), topics=["other"])[1]


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ENOENT])
def test_a_folder_that_cannot_be_listed_does_not_hide_the_others(tmp_path: Path, error: int) -> None:
    """One that is gone was deleted meanwhile."""
    for number in range(3):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / "00000000000000000000.log").touch()
    problems: list[str] = []
    filesystem = ControlledFileSystem()
    filesystem.on("list_directory", tmp_path / "t-1", fails(error))
    tasks = plan(filesystem, [str(tmp_path)], Query(), problem=problems.append)
    assert [task.partition for task in tasks] == [0, 2]
    assert problems == ([] if error == errno.ENOENT else [f"{tmp_path / 't-1'}: {os.strerror(error)}"])


def test_a_scan_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    per_batch, count = 300, 9
    content = b"".join(
        encode_batch([Record(0, 1, b"k", b"v", [])] * per_batch, base_offset=at * per_batch) for at in range(count)
    )
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(content)
    task: Task | None = next(plan(FILESYSTEM, [str(tmp_path)], Query(key=b"k"), problem=pytest.fail))
    sizes = []
    while task is not None:
        answer = scan(FILESYSTEM, task)
        sizes.append(len(answer.matches))
        task = answer.following
    assert sum(sizes) == per_batch * count and max(sizes) < MAX_MATCHES + per_batch and len(sizes) > 1
    for jobs in (1, 2):
        matches, _, _ = found([tmp_path], Query(key=b"k"), jobs)
        assert [match.offset for match in matches] == list(range(per_batch * count))


def test_message_sets_of_old_formats(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    rows = [Record(at, 5000 + at, b"k%d" % at, b"v", []) for at in range(4)]
    content = encode_message_set(rows[:2], 0) + encode_message_set(rows[2:], 1, compression=Compression.GZIP)
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(content)
    assert [match.offset for match in found([tmp_path], Query(key=b"k3"))[0]] == [3]
    assert [match.offset for match in found([tmp_path], Query(from_ms=0))[0]] == [2, 3]  # v0 has no times


def test_values_are_cut(data: tuple[Path, list[Record]]) -> None:
    match = found([data[0]], Query(key=b"key-3", value_bytes=4))[0][0]
    assert match.value == b"valu" and match.value_size == len(data[1][match.offset].value or b"")


def test_topics_and_partitions_are_chosen(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "b-0", "a-1.0123-delete", "a-2-future", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(encode_batch([Record(0, 1, b"k", b"v", [])]))
    for chosen, expected in (
        ({}, [("a", 0), ("a", 1), ("b", 0)]),
        ({"topics": ["a"]}, [("a", 0), ("a", 1)]),
        ({"partition": 0}, [("a", 0), ("b", 0)]),
        ({"topics": ["b", "c"], "partition": 0}, [("b", 0)]),
    ):
        assert [
            (each.topic, each.partition)
            for each in plan(FILESYSTEM, [str(tmp_path)], Query(), problem=pytest.fail, **chosen)
        ] == expected  # type: ignore[arg-type]
    one = plan(FILESYSTEM, [str(tmp_path / "a-1")], Query(), problem=pytest.fail)
    assert [each.partition for each in one] == [1]


def test_a_segment_that_goes_away_meanwhile(tmp_path: Path) -> None:
    assert scan(FILESYSTEM, Task("t", 0, str(tmp_path), 0, True, Query())) == Found()


# --- the command ---


def run(*arguments: object) -> tuple[int, list[str], str]:
    result = subprocess.run(command(*map(str, arguments)), capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout.splitlines(), result.stderr


def test_the_command_answers_lines_and_json(data: tuple[Path, list[Record]]) -> None:
    folder, written = data
    code, lines, words = run("log", "find", folder, "--key", "key-3", "--jobs", 2)
    assert code == 0 and len(lines) == sum(each.key == b"key-3" for each in written)
    assert lines[0].startswith("t-0 offset: 3 timestamp: ") and "headers: [number=3,flag]" in lines[0]
    assert (
        words == f"{len(lines)} records found in {len(list((folder / 't-0').glob('*.log')))} segments of 1 partition\n"
    )
    code, lines, _ = run("log", "find", folder, "--header", "number=300", "--json")
    assert code == 0
    row = json.loads(lines[0])
    assert (row["offset"], row["key"], row["headers"]) == (300, "key-0", [["number", "300"], ["flag", None]])
    code, lines, _ = run("log", "find", folder, "--from", "2023-11-14T22:20:00", "--to", "2023-11-14T22:20:10+00:00")
    assert 0 < len(lines) < 20


def test_a_time_is_taken_to_the_millisecond(tmp_path: Path) -> None:
    """2,147,483,648.002 is no number of binary digits."""
    (tmp_path / "t-0").mkdir()
    batch = encode_batch([Record(at, 2_147_483_648_000 + at, None, b"v", []) for at in range(4)])
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(batch)
    _, lines, _ = run("log", "find", tmp_path, "--from", "2038-01-19T03:14:08.002", "--to", "2038-01-19T03:14:08.003")
    assert len(lines) == 1 and lines[0].startswith("t-0 offset: 2 ")


def test_the_command_says_that_it_stopped_at_its_limit(data: tuple[Path, list[Record]]) -> None:
    """And counts what it has looked into; at the limit of all that there is it has not stopped."""
    folder, written = data
    segments = len(list((folder / "t-0").glob("*.log")))
    for jobs in (1, 2):
        code, lines, words = run("log", "find", folder, "--limit", 7, "--jobs", jobs)
        assert code == 0 and len(lines) == 7
        assert words == "7 records found in 1 segment of 1 partition; stopped at --limit 7, there may be more\n"
    for limit in (len(written), len(written) + 1):
        code, lines, words = run("log", "find", folder, "--limit", limit)
        assert code == 0 and len(lines) == len(written)
        assert words == f"{len(written)} records found in {segments} segments of 1 partition\n"


@pytest.mark.parametrize(
    ("option", "value", "valid"),
    [
        (
            "--from",
            "yesterday",
            "'yesterday' is no time: 2026-01-31T12:00:00, milliseconds since 1970, or 1h for an hour ago",
        ),
        ("--to", "\u00b2", "'\u00b2' is no time: 2026-01-31T12:00:00, milliseconds since 1970, or 1h for an hour ago"),
        ("--key-hex", "zz", "'zz' has not two hexadecimal digits for each byte"),
        ("--limit", "many", "'many' is not a valid integer range."),
        ("--limit", "0", "0 is not in the range x>=1."),
        ("--jobs", "-1", "-1 is not in the range x>=1."),
    ],
)
def test_a_value_that_cannot_be_is_answered_with_what_can(tmp_path: Path, option: str, value: str, valid: str) -> None:
    code, lines, words = run("log", "find", tmp_path, option, value)
    assert code == 2 and not lines
    assert words.splitlines()[0].replace("'", "") == f"barnabas: Invalid value for {option}: {valid}".replace("'", "")


def test_the_command_says_when_there_is_nothing(data: tuple[Path, list[Record]]) -> None:
    assert run("log", "find", data[0], "--key", "no such key")[0] == 1
    assert run("log", "find", data[0] / "missing")[0] == 2
    assert run("log", "find", data[0], "--header", "\udcff")[0] == 1, "bytes that are no text are no header's name"
    for wrong in (["--key", "a", "--key-hex", "00"], ["--jobs", "x"]):
        code, lines, words = run("log", "find", data[0], *wrong)
        assert code == 2 and not lines and "Traceback" not in words


def test_control_characters_stay_on_their_line(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    batch = encode_batch([Record(0, -1, b"\xff", "a\nb\x1b[2J\u202e".encode(), [("h\n", b"\x1b"), ("\x1b", None)])])
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(batch)
    code, lines, _ = run("log", "find", tmp_path, "--key-hex", "ff")
    assert code == 0
    assert lines == [
        "t-0 offset: 0 timestamp: -1 (none) key: \\xff headers: [h\\n=\\x1b,\\x1b] value: a\\nb\\x1b[2J\\u202e"
    ]


def test_a_reader_that_has_seen_enough(data: tuple[Path, list[Record]]) -> None:
    for arguments in (
        ["log", "find", str(data[0]), "--limit", "100000"],
        ["dump-log", "--files", str(data[0]), "--print-data-log"],
    ):
        process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        words = process.stderr.read()
        process.stderr.close()
        assert process.wait(60) in (0, 1) and b"Traceback" not in words and b"BrokenPipe" not in words
