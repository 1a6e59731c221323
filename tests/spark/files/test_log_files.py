"""Log files are read as their brokers would serve them: bounds, transactions, copies, tails that are not whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="columns are Arrow's; make interop has it")

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.files import log_files, log_summary
from barnabas.spark.files.log_files import LogPlanner, read_files
from barnabas.spark.reading.fetching import DataLost
from barnabas.spark.reading.read_options import parse_read
from barnabas.spark.reading.streaming import reported
from protocol.records import control
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch
from storage.checkpoint import encode_offsets

KEY = ("orders", 0)


def batch(first: int, count: int = 10, **parts: Any) -> bytes:
    """Record n has timestamp 1000 + n."""
    records = [Record(first + n, 1000 + first + n, b"k", b"%d" % (first + n)) for n in range(count)]
    return encode_batch(records, base_offset=first, **parts)


def of_transaction(first: int, producer: int) -> bytes:
    return batch(first, 5, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(offset: int, producer: int, *, commits: bool) -> bytes:
    kind = control.ControlType.COMMIT if commits else control.ControlType.ABORT
    return control.encode_marker(
        control.EndTxnMarker(kind, 0, 5), producer_id=producer, producer_epoch=0, base_offset=offset
    )


def write(directory: Path, *batches: bytes, base: int = 0, key: tuple[str, int] = KEY) -> Path:
    folder = directory / f"{key[0]}-{key[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks, pieces and tasks so small that there are many."""
    monkeypatch.setattr(log_summary, "MARK_BYTES", 300)
    monkeypatch.setattr(log_summary, "PIECE_BYTES", 500)
    monkeypatch.setattr(log_files, "TASK_BYTES", 900)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """100 records in segments at 0, 40 and 70."""
    codecs = list(Compression)
    for base, end in ((0, 40), (40, 70), (70, 100)):
        write(tmp_path, *(batch(n, compression=codecs[n // 10 % 5]) for n in range(base, end, 10)), base=base)
    return tmp_path


def plan(path: Path | str, **options: str) -> list[Any]:
    parsed = parse_read({"path": str(path), "subscribe": "orders"} | options, is_streaming=False)
    return LogPlanner(parsed, reported(parsed)).plan()


def offsets(path: Path | str, *, lost: Callable[[str], None] = pytest.fail, **options: str) -> list[int]:
    return [
        offset
        for part in plan(path, **options)
        for rows in read_files(part, lost, include_headers=True, check_crcs=True)
        for offset in rows.column("offset").to_pylist()
    ]


def test_all_of_a_log(plain: Path) -> None:
    assert offsets(plain) == list(range(100))
    assert len(plan(plain)) == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("start", "end"), [(0, 100), (37, 93), (39, 41), (55, 56), (70, 100), (5, 5)])
def test_parts_of_a_log_in_many_tasks(plain: Path, start: int, end: int) -> None:
    bounds = {"startingOffsets": f'{{"orders": {{"0": {start}}}}}', "endingOffsets": f'{{"orders": {{"0": {end}}}}}'}
    assert offsets(plain, **bounds) == list(range(start, end))
    assert offsets(plain, **bounds, minPartitions="9") == list(range(start, end))
    assert offsets(plain, **bounds, maxRecordsPerPartition="7") == list(range(start, end))
    assert len(plan(plain)) > 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("time", [0, 1000, 1039, 1040, 1057, 1099])
def test_bounds_by_time(plain: Path, time: int) -> None:
    first = max(time - 1000, 0)
    assert offsets(plain, startingTimestamp=str(time)) == list(range(first, 100))
    assert offsets(plain, endingTimestamp=str(time)) == list(range(first))


def test_a_read_cannot_begin_behind_its_end(plain: Path) -> None:
    with pytest.raises(
        SourceOptionError, match="orders-0: startingOffsets is offset 7, behind endingTimestamp, which is offset 5"
    ):
        plan(plain, startingOffsets='{"orders": {"0": 7}}', endingTimestamp="1005")
    with pytest.raises(SourceOptionError, match="startingOffsets is offset 101, behind endingOffsets"):
        plan(plain, startingOffsets='{"orders": {"0": 101}}')
    assert plan(plain, startingOffsets='{"orders": {"0": 100}}') == []


def test_a_time_beyond_those_of_spark_is_reported_but_is_a_time_to_begin_at(tmp_path: Path) -> None:
    times = (1000, 1_700_000_000_123_456_789, 2000)
    write(tmp_path, encode_batch([Record(n, time, None, b"v") for n, time in enumerate(times)]))
    lost: list[str] = []
    assert offsets(tmp_path, lost=lost.append) == [0, 1, 2]
    assert "orders-0: the record at offset 1 has the timestamp 1700000000123456789 ms" in lost[0]
    assert offsets(tmp_path, lost=lost.append, startingTimestamp="1001") == [1, 2]
    assert offsets(tmp_path, startingTimestamp="1001", endingTimestamp="1001") == []


def test_a_time_behind_the_last_record(plain: Path) -> None:
    with pytest.raises(SourceOptionError, match="No record has the time of startingTimestamp"):
        offsets(plain, startingTimestamp="1100")
    assert offsets(plain, startingTimestamp="1100", startingOffsetsByTimestampStrategy="latest") == []
    assert len(offsets(plain, endingTimestamp="1100")) == 100


@pytest.mark.usefixtures("small")
def test_transactions(tmp_path: Path) -> None:
    write(
        tmp_path,
        of_transaction(0, 7),  # aborted
        of_transaction(5, 8),  # committed
        batch(10, 5),
        marker(15, 7, commits=False),
        of_transaction(16, 7),  # committed
        marker(21, 8, commits=True),
        marker(22, 7, commits=True),
    )
    write(tmp_path, batch(23, 2), of_transaction(25, 9), batch(30, 5), base=23)  # 9 is open
    committed = [*range(5, 15), *range(16, 21), 23, 24]
    assert offsets(tmp_path) == committed
    assert offsets(tmp_path, minPartitions="8") == committed
    everything = [*range(15), *range(16, 21), *range(23, 35)]
    assert offsets(tmp_path, **{"kafka.isolation.level": "read_uncommitted"}) == everything
    with pytest.raises(SourceOptionError, match="orders-0 can be read to offset 25, not 30"):
        offsets(tmp_path, endingOffsets='{"orders": {"0": 30}}')


def test_a_tail_that_is_not_whole_is_behind_the_end(plain: Path) -> None:
    path = plain / "orders-0" / f"{70:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + batch(100)[:-1])
    assert offsets(plain) == list(range(100))
    path.write_bytes(whole + bytes(10_000))  # allocated in advance
    assert offsets(plain) == list(range(100))


def test_a_batch_larger_than_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_summary, "PIECE_BYTES", 100)
    write(tmp_path, batch(0), batch(10, 200), batch(210))
    assert offsets(tmp_path) == list(range(220))


def test_damage_is_an_error(plain: Path) -> None:
    path = plain / "orders-0" / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[100] ^= 1
    path.write_bytes(raw)
    with pytest.raises(Exception, match="checksum"):
        offsets(plain)


def test_records_deleted_at_the_front(plain: Path) -> None:
    (plain / "log-start-offset-checkpoint").write_bytes(encode_offsets({KEY: 33}))
    assert offsets(plain) == list(range(33, 100))
    early = {"startingOffsets": '{"orders": {"0": 20}}'}
    with pytest.raises(DataLost, match="offsets 20 to 32 are gone"):
        offsets(plain, **early)
    assert offsets(plain, **early, failOnDataLoss="false") == list(range(33, 100))


def test_the_high_watermark_as_the_end(plain: Path) -> None:
    with pytest.raises(SourceOptionError, match="needs replication-offset-checkpoint"):
        offsets(plain, endingOffsets="checkpoint")
    (plain / "replication-offset-checkpoint").write_bytes(encode_offsets({KEY: 64}))
    assert offsets(plain, endingOffsets="checkpoint") == list(range(64))


def test_several_directories_and_the_longest_copy(tmp_path: Path) -> None:
    write(tmp_path / "one", batch(0))
    write(tmp_path / "two", batch(0), batch(10))
    write(tmp_path / "two", batch(0), key=("orders", 1))
    for name in ("orders-0.abc-delete", "orders-2.def-future", "other-0", "__internal-0"):
        (tmp_path / "one" / name).mkdir()
    paths = f"{tmp_path}/one,{tmp_path}/two"
    parts = plan(paths)
    assert [(part.range.partition, part.range.end) for part in parts] == [(0, 20), (1, 10)]
    assert offsets(paths, subscribe="other") == []
    parsed = parse_read({"path": paths, "subscribePattern": ".*"}, is_streaming=False)
    assert {part.range.topic for part in LogPlanner(parsed, reported(parsed)).plan()} == {"orders"}


def test_nothing_to_read_is_no_part(plain: Path) -> None:
    (plain / "empty-0").mkdir()
    write(plain, key=("emptied", 0))
    for chosen in ({"subscribe": "empty"}, {"subscribe": "emptied"}, {"assign": "{}"}, {"subscribePattern": "no.*"}):
        parsed = parse_read({"path": str(plain), **chosen}, is_streaming=False)
        assert LogPlanner(parsed, reported(parsed)).plan() == []


def test_what_is_not_there(plain: Path) -> None:
    with pytest.raises(SourceOptionError, match="No such file or directory"):
        plan(plain / "nothing")
    with pytest.raises(SourceOptionError, match="Topic gone does not exist"):
        plan(plain, subscribe="gone")
    parsed = parse_read({"path": str(plain), "assign": '{"orders": [4]}'}, is_streaming=False)
    planner = LogPlanner(parsed, reported(parsed))
    with pytest.raises(SourceOptionError, match="partitions that are not there: orders-4"):
        planner.plan()


@pytest.mark.usefixtures("small")
def test_old_messages_in_front_of_batches(tmp_path: Path) -> None:
    def old(first: int) -> bytes:
        return encode_message_set(
            [Record(first + n, 1000 + first + n, None, b"x" * 50) for n in range(10)], 1, compression=Compression.GZIP
        )

    write(tmp_path, *(old(first) for first in range(0, 50, 10)), *(batch(first) for first in range(50, 100, 10)))
    assert offsets(tmp_path) == list(range(100))
    assert offsets(tmp_path, startingOffsets='{"orders": {"0": 13}}', minPartitions="6") == list(range(13, 100))
