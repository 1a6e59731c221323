"""What sampling a large cluster costs its brokers, in requests: these are the figures of docs/web.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.history.large_cluster import GROUPS, PARTITIONS, TOPICS, large_cluster, topic_name
from tests.web.history.sampling_world import world_of
from web.history.history import Measure
from web.history.sampler import GROUPS_PER_REQUEST, PARTITIONS_PER_REQUEST, PARTITIONS_PER_ROUND

ALL = TOPICS * PARTITIONS + 4  # those of __consumer_offsets
LONG_ROUNDS = 1 + ALL // PARTITIONS_PER_ROUND
"""One in so many rounds asks for metadata and sizes."""
_COUNT = re.compile(r'^kafka_network_requestmetrics_totaltimems_count\{request="(\w+)"\} (\S+)$', re.MULTILINE)


def requests_of(address: str) -> dict[str, int]:
    text = httpx.get(f"http://{address}/metrics").text
    return {name: int(float(value)) for name, value in _COUNT.findall(text)}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with large_cluster() as broker:
        yield broker


@pytest.mark.timeout(120)
async def test_the_requests_of_a_round_are_as_few_as_they_are_said_to_be(broker: EmbeddedBroker) -> None:
    assert broker.http is not None
    async with world_of(broker) as world:
        await world.look()
        before = requests_of(broker.http)
        for _ in range(LONG_ROUNDS):
            await world.look()
        asked = {name: each - before.get(name, 0) for name, each in requests_of(broker.http).items()}
    assert {name: each for name, each in asked.items() if each} == {
        "ListOffsets": LONG_ROUNDS * ceil(ALL / PARTITIONS_PER_REQUEST),
        "ListGroups": LONG_ROUNDS,
        "OffsetFetch": LONG_ROUNDS * ceil(GROUPS / GROUPS_PER_REQUEST),
        "Metadata": 1 + LONG_ROUNDS,  # all topics once; which brokers there are, in each round
        "DescribeLogDirs": ceil(ALL / PARTITIONS_PER_ROUND),
    }
    assert world.latest(Measure.RECORDS, topic_name(TOPICS - 1)) == 0.0
    assert world.latest(Measure.LAG, f"group-{GROUPS - 1:04}", topic_name(GROUPS - 1)) == 0
    assert all(world.history.left_out(measure) == 0 for measure in Measure)
    assert world.sampler.groups_left_out == 0
