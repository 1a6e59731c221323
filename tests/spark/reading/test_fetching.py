"""A range is read whole, over leaders that move and responses of any size; what is gone is reported."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="columns are Arrow's; make interop has it")

from barnabas._private.client.errors import ClusterUnavailable
from barnabas._private.protocol.errors import ErrorCode

from barnabas.spark.client.ranges import OffsetRange
from barnabas.spark.reading.fetching import DataLost, RangeReader
from protocol.records.record import Record, encode_batch
from tests.spark.cluster import Cluster

KEY = ("orders", 0)
OF_READS = ("reads_committed", "fetch_bytes", "fetch_wait_ms", "checks_crcs")


def batch(first: int, count: int, **parts: Any) -> bytes:
    return encode_batch(
        [Record(first + n, 1000, None, b"%d" % (first + n)) for n in range(count)], base_offset=first, **parts
    )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster({KEY: 0})
    cluster.logs[KEY] = b"".join(batch(first, 10) for first in range(0, 100, 10))
    cluster.fetch_bytes = 300
    return cluster


def read(cluster: Cluster, start: int, end: int, lost: list[str] | None = None, **settings: Any) -> list[int]:
    def failing(what: str) -> None:
        if lost is None:
            raise DataLost(what)
        lost.append(what)

    range_settings = cluster.settings(**{name: settings.pop(name) for name in list(settings) if name in OF_READS})
    reader = RangeReader(
        cluster.client(**settings), range_settings, OffsetRange(*KEY, start, end), failing, include_headers=False
    )
    return [offset for rows in reader.rows() for offset in rows.column("offset").to_pylist()]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (13, 57), (99, 100), (0, 1)])
def test_a_range_is_read_whole(cluster: Cluster, start: int, end: int) -> None:
    assert read(cluster, start, end) == list(range(start, end))


def test_the_leader_moves_in_the_middle(cluster: Cluster) -> None:
    fetches = 0

    def moving(broker: int, request: Any) -> Any:
        nonlocal fetches
        fetches += 1
        if fetches == 2:
            cluster.leaders[KEY] = 1
        if fetches == 4:
            return None  # the connection is lost
        return cluster._Fetch(broker, request, 0)

    cluster.handlers["Fetch"] = moving
    assert read(cluster, 0, 100) == list(range(100))


def test_records_that_were_deleted_are_reported(cluster: Cluster) -> None:
    cluster.starts[KEY] = 40
    cluster.logs[KEY] = b"".join(batch(first, 10) for first in range(40, 100, 10))
    with pytest.raises(DataLost, match=r"offsets 15 to 39 are gone, the log begins at 40.*failOnDataLoss"):
        read(cluster, 15, 60)
    lost: list[str] = []
    assert read(cluster, 15, 60, lost) == list(range(40, 60))
    assert read(cluster, 15, 30, lost) == []
    assert len(lost) == 2


def test_records_are_deleted_in_the_middle_of_a_batch(cluster: Cluster) -> None:
    cluster.starts[KEY] = 44
    cluster.logs[KEY] = b"".join(batch(first, 10) for first in range(40, 100, 10))
    lost: list[str] = []
    assert read(cluster, 15, 60, lost) == list(range(44, 60))


def test_a_log_that_ends_before_the_range_is_reported(cluster: Cluster) -> None:
    lost: list[str] = []
    assert read(cluster, 150, 170, lost) == []
    assert "the topic was made again or truncated" in lost[0]


def test_a_topic_that_was_deleted_is_reported(cluster: Cluster) -> None:
    cluster.leaders.clear()
    with pytest.raises(DataLost, match="is no more"):
        read(cluster, 0, 10)


def test_a_topic_that_is_unknown_for_a_moment_is_not_lost(cluster: Cluster) -> None:
    cluster.leaders.clear()
    cluster.clock.at_pause = [lambda: None] * 5 + [lambda: cluster.leaders.update({KEY: 2})]
    assert read(cluster, 0, 10) == list(range(10))


def test_offsets_that_come_late_are_waited_for(cluster: Cluster) -> None:
    cluster.stable[KEY] = 50
    cluster.clock.at_pause = [lambda: None] * 3 + [cluster.stable.clear]
    assert read(cluster, 40, 60) == list(range(40, 60))
    cluster.stable[KEY] = 50
    with pytest.raises(ClusterUnavailable, match="the last stable offset is 50, the range ends at 60"):
        read(cluster, 40, 60)


def test_aborted_records_are_left_out_only_of_committed_reads(cluster: Cluster) -> None:
    cluster.logs[KEY] = batch(0, 5, producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True) + batch(
        5, 5
    )
    cluster.aborted = [(0, 4)]
    assert read(cluster, 0, 10) == [5, 6, 7, 8, 9]
    cluster.aborted = []  # as brokers answer then
    assert read(cluster, 0, 10, reads_committed=False) == list(range(10))


def test_errors_that_stay_are_raised(cluster: Cluster) -> None:
    cluster.errors = [("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
        read(cluster, 0, 10)
