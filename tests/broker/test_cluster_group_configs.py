"""Settings of single groups: changed through one broker, told and used by another, and refused as by Apache Kafka 4.3.0."""

from __future__ import annotations

from typing import Any

import pytest

from broker.composition import consumer_settings, serves_consumer_groups
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.offset_reset import OffsetReset, ResetKind
from coordinator.group.assigned.settings import ConsumerConfig
from metadata.features import NEWEST_LEVELS, NO_LEVELS
from metadata.store.znodes import FEATURE, FinalizedFeatures
from protocol.errors import ErrorCode
from protocol.messages import alter_configs as replaced
from protocol.messages import incremental_alter_configs as changed
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

BROKER, GROUP = 4, 32
SET, DELETE, APPEND = 0, 1, 2
SESSION = "consumer.session.timeout.ms"
ODD = "gr/ü ."


async def with_levels(loop: SimLoop) -> ClusterWorld:
    world = ClusterWorld(loop, (1, 2), group_consumer_assignment_interval_ms="500")
    await world.start()
    await world.ensemble.connect().set(FEATURE, FinalizedFeatures(NEWEST_LEVELS.above_zero).encode())
    await world.until(lambda: all(b.services.features.levels == NEWEST_LEVELS for b in world.live.values()))
    return world


async def change(
    world: ClusterWorld, group: str, *rows: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    configs = [changed.AlterableConfig(name=name, config_operation=each, value=value) for name, each, value in rows]
    resource = changed.AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    request = changed.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = await world.ask(1, request, 1, changed.IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code, answer.responses[0].error_message


async def described(world: ClusterWorld, broker: int, group: str, kind: int = GROUP) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=group, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    return (await world.ask(broker, request, 4, DescribeConfigsResponse)).results[0]


def values(result: DescribeConfigsResult) -> dict[str, tuple[str | None, list[tuple[str, str | None, int]]]]:
    assert result.error_code == 0
    return {
        row.name: (row.value, [(each.name, each.value, each.source) for each in row.synonyms]) for row in result.configs
    }


async def listed(world: ClusterWorld, version: int, *kinds: int) -> Any:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = await world.ask(2, request, version, ListConfigResourcesResponse)
    return answer.error_code or [(row.resource_type, row.resource_name) for row in answer.config_resources]


@simulated(1)
async def test_a_groups_settings_reach_every_broker(loop: SimLoop) -> None:
    world = await with_levels(loop)
    configs = {number: broker.services.group_configs for number, broker in world.live.items()}
    common = "group.consumer.session.timeout.ms"
    for group in ("g", ODD, "..", "never"):
        told = values(await described(world, 2, group))
        assert told[SESSION] == ("45000", [(common, "45000", 5)])
        assert told["consumer.assignment.interval.ms"][1][0] == ("group.consumer.assignment.interval.ms", "500", 4)
    for group in ("g", ODD, ".."):
        assert await change(world, group, (SESSION, SET, "50000")) == (0, None)
    await world.until(lambda: len(configs[2].stored) == 3)
    assert values(await described(world, 2, ODD))[SESSION] == ("50000", [(SESSION, "50000", 8), (common, "45000", 5)])
    assert configs[2].current.of(ODD) == configs[1].current.of("g") == ConsumerConfig(50_000, 5_000, 500)
    assert configs[2].current.of("never") == ConsumerConfig(45_000, 5_000, 500)

    assert await change(world, "g", (SESSION, SET, "60000"), ("consumer.assignment.interval.ms", SET, "7")) == (0, None)
    await world.until(lambda: configs[2].current.of("g") == ConsumerConfig(60_000, 5_000, 7))
    row = replaced.AlterableConfig(name="consumer.heartbeat.interval.ms", value="6000")
    resource = replaced.AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[row])
    answer = await world.ask(
        1, replaced.AlterConfigsRequest(resources=[resource], validate_only=False), 2, replaced.AlterConfigsResponse
    )
    assert answer.responses[0].error_code == 0
    await world.until(lambda: configs[2].current.of("g") == ConsumerConfig(45_000, 6_000, 500))

    locked = ("share.record.lock.duration.ms", SET, "20000")
    assert await change(world, "shares", locked, ("share.auto.offset.reset", SET, "earliest")) == (0, None)
    await world.until(lambda: configs[2].current.share_of("shares").record_lock_duration_ms == 20_000)
    assert configs[2].current.share_of("shares").auto_offset_reset == OffsetReset(ResetKind.EARLIEST)
    assert configs[2].current.share_of("never") == configs[2].current.share.default
    assert await change(world, "shares", (locked[0], DELETE, None), ("share.auto.offset.reset", DELETE, None)) == (
        0,
        None,
    )
    await world.until(lambda: "shares" not in configs[2].stored)

    assert await listed(world, 0) == []
    assert await listed(world, 1, GROUP) == [(GROUP, ".."), (GROUP, "g"), (GROUP, ODD)]
    assert await listed(world, 1, BROKER, 16) == [(BROKER, "1"), (BROKER, "2")]
    assert {kind for kind, _ in await listed(world, 1)} == {BROKER, 8, GROUP}
    assert await listed(world, 1, GROUP, 99) == ErrorCode.UNSUPPORTED_VERSION
    assert await change(world, "g", ("consumer.heartbeat.interval.ms", DELETE, None)) == (0, None)
    await world.until(lambda: "g" not in configs[2].stored)
    assert await world.ensemble.connect().children("/config/changes") == [], "3.9.1 logs an error for those of groups"


@simulated(2)
async def test_what_a_groups_settings_may_not_be(loop: SimLoop) -> None:
    world = await with_levels(loop)
    invalid, request = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
    for rows, code, text in [
        ([(SESSION, SET, "1")], invalid, f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ([(SESSION, SET, None)], request, f"Null value not supported for : {SESSION}"),
        ([(SESSION, APPEND, "1")], invalid, f"Can't APPEND to key {SESSION} because its type is not LIST."),
        ([(SESSION, SET, "50000"), (SESSION, SET, "50001")], request, "Error due to duplicate config keys"),
        ([("nope", SET, "1")], invalid, "Unknown group config name: nope"),
        (
            [("share.delivery.count.limit", SET, "99")], invalid,
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
    ]:  # fmt: skip
        assert await change(world, "g", *rows) == (code, text)
    assert await change(world, "", (SESSION, SET, "50000")) == (request, "Default group resources are not allowed.")
    assert await change(world, "g", (SESSION, SET, "50000"), validate_only=True) == (0, None)
    assert world.live[1].services.group_configs.stored == {}
    nameless = await described(world, 1, "")
    assert (nameless.error_code, nameless.error_message) == (request, "Group name must not be empty")


@simulated(3)
async def test_without_levels_groups_have_no_settings_as_in_3_9(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1,))
    await world.start()
    assert (await described(world, 1, "g")).error_code == ErrorCode.INVALID_REQUEST
    assert await change(world, "g", (SESSION, SET, "50000")) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 32")
    newer = {"group.consumer.assignment.interval.ms", "group.consumer.migration.policy"}
    assert not newer & values(await described(world, 1, "1", BROKER)).keys()
    await world.ensemble.connect().set(FEATURE, FinalizedFeatures({"group.version": 1}).encode())
    await world.until(lambda: world.live[1].services.features.levels.any_above_zero)
    assert newer <= values(await described(world, 1, "1", BROKER)).keys()


def test_consumer_groups_are_served_by_the_level_unless_the_protocols_are_named() -> None:
    protocols = "group.coordinator.rebalance.protocols"
    for given, by_level in [({}, True), ({protocols: "classic"}, False), ({protocols: "classic,consumer"}, True)]:
        assert serves_consumer_groups(BrokerSettings(given), NEWEST_LEVELS) is by_level
        assert not serves_consumer_groups(BrokerSettings(given), NO_LEVELS)


def test_assignors_have_names_or_the_classes_of_kafka() -> None:
    of_kafka = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    assert consumer_settings(BrokerSettings({})).assignors == ("uniform", "range")
    assert consumer_settings(BrokerSettings({"group.consumer.assignors": f"{of_kafka},uniform"})).assignors == (
        "range", "uniform",
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"group.consumer.assignors=my.Own: there are uniform, range"):
        consumer_settings(BrokerSettings({"group.consumer.assignors": "my.Own"}))
