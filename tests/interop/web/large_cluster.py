"""A broker with many partitions and groups, made quickly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.embedded import EmbeddedBroker
from client.admin import groups as group_steps
from client.admin import topics as topic_steps
from client.admin.brokers import checked
from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from protocol.messages.create_topics import CreatableTopic
from web.cluster.user_cluster import UserCluster
from web.surroundings import Surroundings

TOPICS, PARTITIONS, GROUPS = 1_000, 10, 1_000
TOPICS_PER_REQUEST = 100
LIMIT_MS = 120_000


def topic_name(number: int) -> str:
    return f"topic-{number:04}"


@contextmanager
def large_cluster() -> Iterator[EmbeddedBroker]:
    """`TOPICS` topics of `PARTITIONS` partitions, and `GROUPS` groups that have committed offsets in one topic each."""
    with EmbeddedBroker(settings={"barnabas.http.port": 0}) as broker:
        asyncio.run(_fill(broker))
        yield broker


async def _fill(broker: EmbeddedBroker) -> None:
    surroundings = Surroundings()
    cluster = UserCluster(parse_client(broker.client_settings(), DEFAULTS), surroundings, "test")
    try:
        for first in range(0, TOPICS, TOPICS_PER_REQUEST):
            names = [topic_name(each) for each in range(first, first + TOPICS_PER_REQUEST)]
            wanted = {
                each: CreatableTopic(
                    name=each, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
                )
                for each in names
            }
            checked(await cluster.run(topic_steps.create(wanted, LIMIT_MS, validate_only=False), LIMIT_MS))
        few = asyncio.Semaphore(50)

        async def commit(number: int) -> None:
            commits = {(topic_name(number % TOPICS), each): 0 for each in range(PARTITIONS)}
            async with few:
                checked(await cluster.run(group_steps.commit_offsets(f"group-{number:04}", commits), LIMIT_MS))

        await asyncio.gather(*map(commit, range(GROUPS)))
    finally:
        await cluster.close()
        await surroundings.close()
