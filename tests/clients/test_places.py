"""Reading by places, and reading a log whole, from a broker: behind open, aborted and committed transactions."""

from __future__ import annotations

import asyncio
import time
from random import Random

from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.connector import Connector
from client.event_loop.place_reader import PlaceReader
from client.event_loop.producer import AsyncProducer
from client.event_loop.whole_log import read_whole
from client.reading.positions import ReadRecord
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address

RANDOM = Random(1)
KEY = ("orders", 1)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_places_and_whole_logs_behind_transactions(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    cluster = AsyncClusterClient(Connector(OsNetwork()), [Address(host, int(port))], "places", RANDOM)
    taken: list[bytes | None] = []

    def take(records: list[ReadRecord]) -> None:
        taken.extend(each.record.value for each in records)

    assert await read_whole(cluster, RANDOM, {KEY: None}, take) == {KEY: 0}
    writer = AsyncProducer(cluster, wall_ms, RANDOM)
    producers = [AsyncProducer(cluster, wall_ms, RANDOM, transactional_id=f"places {each}") for each in range(2)]
    for producer in producers:
        await producer.initialize()
        producer.begin()
    first = [await writer.send(*KEY[:1], b"%d" % each, partition=1) for each in range(3_000)]
    aborted = await producers[0].send("orders", b"aborted", partition=1)
    await producers[0].flush()
    await producers[0].abort()
    hanging = await producers[1].send("orders", b"last", partition=1)
    await producers[1].flush()
    await writer.flush()
    offsets = sorted(each.result().offset for each in first)
    wanted = [*offsets[:10], *offsets[1_000:2_000:50], offsets[-1]]
    reader = PlaceReader(cluster, RANDOM)
    found = await reader.read({KEY: [*wanted, 1 << 40]}, 1 << 20)
    assert found.pop((*KEY, 1 << 40)) is None
    values = {(*KEY, each.result().offset): b"%d" % number for number, each in enumerate(first)}
    assert {place: record and record.value for place, record in found.items()} == {
        (*KEY, offset): values[*KEY, offset] for offset in wanted
    }
    reading = asyncio.ensure_future(read_whole(cluster, RANDOM, {KEY: None, ("orders", 0): None}, take))
    done, _ = await asyncio.wait([reading], timeout=0.3)
    assert not done, "an open transaction before the end is waited for"
    await producers[1].commit()
    ends = await reading
    end = ends[KEY]
    assert ends["orders", 0] == 0
    assert taken == [*(b"%d" % each for each in range(3_000)), b"last"]
    assert end > max(aborted.result().offset, hanging.result().offset)
    taken.clear()
    assert (await read_whole(cluster, RANDOM, {KEY: hanging.result().offset}, take))[KEY] >= end
    assert taken == [b"last"]
    await reader.close()
    for each in (writer, *producers):
        await each.close()
    await cluster.close()
