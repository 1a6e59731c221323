"""The last hour as the web process samples it, over brokers of both kinds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client.admin import groups as group_steps
from client.admin import topics as topic_steps
from client.admin.brokers import checked
from protocol.messages.create_topics import CreatableTopic
from tests.web.history.sampling_world import opened
from web.history.history import Measure
from web.history.visibility import Visibility

pytestmark = pytest.mark.interop


async def test_rates_sizes_and_lags(bootstrap: str, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("plots"), fresh("group")
    async with opened({"bootstrap.servers": bootstrap}) as world:
        wanted = CreatableTopic(name=topic, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        checked(await world.own.run(topic_steps.create({topic: wanted}, 30_000, validate_only=False)))
        checked(await world.own.run(group_steps.commit_offsets(group, {(topic, 0): 0, (topic, 1): 0})))
        while world.latest(Measure.SIZE, topic) is None:  # a broker may not lead it yet
            await world.look()
        await world.send(topic, 30)
        await world.send(topic, 20, partition=1)
        await world.look()
        assert world.latest(Measure.RECORDS, topic) == 5.0
        assert world.latest(Measure.LAG, group, topic) == 50
        size, growth = (world.latest(each, topic) for each in (Measure.SIZE, Measure.BYTES))
        assert size is not None and growth == pytest.approx(size / 10)
        checked(await world.own.run(group_steps.commit_offsets(group, {(topic, 0): 30})))
        await world.look()
        assert (world.latest(Measure.RECORDS, topic), world.latest(Measure.LAG, group, topic)) == (0.0, 20)
        visibility = Visibility(world.clock)
        view = await visibility.view(world.own)
        assert topic in view.topics and view.has_cluster
        assert await visibility.topics_of_group(world.own, group) == {topic}
