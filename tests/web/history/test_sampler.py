"""Looking at a broker: what becomes of its numbers, as whom it looks, and what is asked no more often than it has to be."""

from __future__ import annotations

import pytest

from barnabas.embedded import EmbeddedBroker
from client.admin import groups as group_steps
from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from tests.web.history.sampling_world import requests_of, world_of
from web.history import sampler
from web.history.history import Measure
from web.history.reading import HistoryReading
from web.history.visibility import KNOWN_MS, Visibility


async def test_two_looks_make_rates_and_lags() -> None:
    with EmbeddedBroker({"orders": 2, "idle": 1}) as broker:
        async with world_of(broker) as world:
            await world.own.run(group_steps.commit_offsets("billing", {("orders", 0): 0, ("orders", 1): 0}))
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") is None, "one look is no rate"
            assert world.latest(Measure.LAG, "billing", "orders") == 0
            await world.send("orders", 40)
            await world.send("orders", 10, partition=1)
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") == 5.0
            assert world.latest(Measure.RECORDS, "idle") == 0.0
            assert world.latest(Measure.LAG, "billing", "orders") == 50
            size, growth = (world.latest(each, "orders") for each in (Measure.SIZE, Measure.BYTES))
            assert size is not None and growth == pytest.approx(size / 10)
            await world.own.run(group_steps.commit_offsets("billing", {("orders", 0): 40}))
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") == 0.0
            assert world.latest(Measure.LAG, "billing", "orders") == 10


async def test_a_cluster_that_is_not_reached_is_a_gap_and_then_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "ANSWER_MS", 300)
    with EmbeddedBroker(["orders"]) as broker:
        async with world_of(broker) as world:
            await world.look()
            await world.look()
            assert world.sampler.problem == ""
            broker.inject("Metadata", disconnect=True, times=None)
            await world.look()
            assert world.sampler.problem.startswith("the cluster was not reached")
            assert world.latest(Measure.RECORDS, "orders") is None
            broker.clear_faults()
            await world.look()
            assert world.sampler.problem == ""
            assert world.latest(Measure.RECORDS, "orders") == 0.0


async def test_a_partition_whose_leader_has_moved_ends_no_round() -> None:
    with EmbeddedBroker(["orders", "audit"]) as broker:
        async with world_of(broker) as world:
            await world.look()
            broker.inject("ListOffsets", "NOT_LEADER_OR_FOLLOWER")
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") is None, "not known"
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") == 0.0


async def test_without_a_principal_of_its_own_it_looks_as_a_user_who_is_here() -> None:
    with EmbeddedBroker(["orders"], users=["alice"]) as broker:
        async with world_of(broker, has_own=False) as world:
            await world.look()
            assert "logs in" in world.sampler.problem
            login = parse_client(broker.client_settings("alice"), DEFAULTS).login
            async with world.users.lease(login, "alice"):
                await world.look()
            assert world.sampler.problem == ""
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") == 0.0, "alice asks for nothing, but is here"
            await world.users.forget(login)
            await world.look()
            assert "logs in" in world.sampler.problem


async def test_a_user_sees_what_their_describe_allows() -> None:
    acls = ["alice describe topic orders", "alice describe group billing"]
    with EmbeddedBroker(["orders", "secret"], acls=acls) as broker:
        async with world_of(broker) as world:
            alice = parse_client(broker.client_settings("alice"), DEFAULTS).login
            commits = {("orders", 0): 0, ("secret", 0): 0}
            await world.own.run(group_steps.commit_offsets("billing", commits))
            await world.own.run(group_steps.commit_offsets("hidden", commits))
            await world.send("orders", 10)
            await world.send("secret", 10)
            await world.look()
            visibility = Visibility(world.clock)
            reading = HistoryReading(world.history)
            async with world.users.lease(alice, "alice") as cluster:
                view = await visibility.view(cluster)
                assert (view.topics, view.has_cluster) == (frozenset({"orders"}), False)
                plot = reading.group("billing", await visibility.topics_of_group(cluster, "billing"))
                assert [(line.name, list(line.values)) for line in plot.lines] == [("", [10]), ("orders", [10])]
                for refused in (
                    visibility.topics_of_group(cluster, "hidden"),
                    visibility.require_topic(cluster, "secret"),
                    visibility.require_topic(cluster, "unknown"),
                ):
                    with pytest.raises(Exception, match="AUTHORIZATION_FAILED"):
                        await refused
            admin = await visibility.view(world.own)
            assert admin.has_cluster and admin.topics >= {"orders", "secret"}
            broker.create_topic("new")
            assert "new" not in (await visibility.view(world.own)).topics
            world.clock.now_ms += KNOWN_MS
            assert "new" in (await visibility.view(world.own)).topics


async def test_long_answers_are_asked_for_in_batches_and_the_more_seldom_the_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, size in (("PARTITIONS_PER_REQUEST", 4), ("PARTITIONS_PER_ROUND", 5), ("GROUPS_PER_REQUEST", 2)):
        monkeypatch.setattr(sampler, name, size)
    with EmbeddedBroker({"orders": 6}, settings={"barnabas.http.port": 0}) as broker:
        async with world_of(broker) as world:
            for group in ("a", "b", "c"):
                await world.own.run(group_steps.commit_offsets(group, {("orders", 0): 0}))
            await world.look()
            before = requests_of(broker)
            for _ in range(3):  # of 10 partitions, 4 are those of __consumer_offsets: each third round is a long one
                await world.look()
            asked = {name: each - before.get(name, 0) for name, each in requests_of(broker).items()}
            assert {name: each for name, each in asked.items() if each} == {
                "ListOffsets": 3 * 3,
                "ListGroups": 3,
                "OffsetFetch": 3 * 2,
                "Metadata": 3 + 1,
                "DescribeLogDirs": 2,
            }


async def test_offsets_of_groups_are_bounded_and_what_is_left_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "GROUPS_PER_REQUEST", 1)
    monkeypatch.setattr(sampler, "COMMITS_MAX", 3)
    with EmbeddedBroker({"orders": 2}) as broker:
        async with world_of(broker) as world:
            for group in ("a", "b", "c", "d"):
                await world.own.run(group_steps.commit_offsets(group, {("orders", each): 0 for each in range(2)}))
            await world.look()
            assert len(list(world.history.subjects(Measure.LAG))) == 2
            assert world.sampler.groups_left_out == 2


async def test_a_broker_that_does_not_answer_is_asked_for_one_thing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "ANSWER_MS", 300)
    monkeypatch.setattr(sampler, "PARTITIONS_PER_REQUEST", 1)
    with EmbeddedBroker({"orders": 8}, settings={"barnabas.http.port": 0}) as broker:
        async with world_of(broker) as world:
            await world.look()
            before = requests_of(broker)["ListOffsets"]
            broker.inject("ListOffsets", disconnect=True, times=None)
            await world.look()
            assert requests_of(broker)["ListOffsets"] - before <= 1
            assert world.latest(Measure.RECORDS, "orders") is None
            broker.clear_faults()
            await world.look()
            assert world.latest(Measure.RECORDS, "orders") == 0.0
