"""The topics of a relay on a broker: those that are missing are created as they should be, and wrong ones are told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import EmbeddedBroker
from relay.names import RelayNames
from relay.topics import create_missing, wrong_settings
from tests.relay.running import relay_client


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


async def test_what_is_created_is_right_and_fits_what_there_is(servers: str) -> None:
    names = RelayNames("fits")
    async with relay_client(servers) as client:
        await client.create(names.log, partitions=3, settings={"cleanup.policy": "compact"})
        await client.cluster.run(create_missing(names, 2, -1))
        await client.cluster.run(create_missing(names, 5, -1))
        assert await client.cluster.run(wrong_settings(names)) == {}
        counts = {name: await client.cluster.partition_count(name) for name in names.topics}
        assert counts == dict.fromkeys(names.topics, 3) | {names.rules: 1}


async def test_wrong_topics_are_told_with_what_to_do(servers: str) -> None:
    names = RelayNames("wrong")
    hour, day, month, year = names.buckets
    async with relay_client(servers) as client:
        assert await client.cluster.run(wrong_settings(names)) == {}
        await client.create(names.rules, partitions=2, settings={"cleanup.policy": "compact"})
        await client.create(names.log, partitions=2, settings={"retention.ms": "-1", "retention.bytes": "5"})
        await client.create(hour, partitions=2, settings={"cleanup.policy": "compact"})
        await client.create(day, partitions=2, settings={"retention.ms": "5"})
        await client.create(month, partitions=1, settings={"retention.ms": "-1"})
        await client.create(year, partitions=4, settings={"retention.ms": "-1"})
        assert await client.cluster.run(wrong_settings(names)) == {
            names.rules: "it has 2 partitions, and only rules in partition 0 count",
            names.log: "its records are deleted by retention.bytes, and what they say is lost: set cleanup.policy=compact",
            hour: "it is compacted, and records with the same key remove each other: set cleanup.policy=delete",
            day: "its records are deleted by retention.ms, and what they say is lost: set retention.ms=-1",
            month: "it has 1 partitions, and wrong-log 2: add partitions",
        }
