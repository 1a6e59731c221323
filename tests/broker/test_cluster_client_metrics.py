"""Subscriptions of client metrics: made through one broker, told by another, pushed there, and gone at level 0."""

from __future__ import annotations

from typing import Any

from metadata.features import NEWEST_LEVELS
from metadata.store.znodes import FEATURE, FinalizedFeatures
from protocol.errors import ErrorCode
from protocol.messages import incremental_alter_configs as changed
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.primitives import ZERO_UUID
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.doubles.otlp import gauge, pushed
from tests.simulation.loop import SimLoop

CLIENT_METRICS = 16
SET, DELETE = 0, 1
KEYS = {GetTelemetrySubscriptionsRequest.api_key, PushTelemetryRequest.api_key}


async def change(world: ClusterWorld, name: str, **settings: str | None) -> tuple[int, str | None]:
    configs = [
        changed.AlterableConfig(
            name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value
        )
        for key, value in settings.items()
    ]
    resource = changed.AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    request = changed.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer: Any = await world.ask(1, request, 1, changed.IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code, answer.responses[0].error_message


async def told(world: ClusterWorld, broker: int) -> Any:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
    return await world.ask(broker, request, 0, GetTelemetrySubscriptionsResponse)


async def offered(world: ClusterWorld) -> set[int]:
    answer: Any = await world.ask(1, ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {row.api_key for row in answer.api_keys} & KEYS


@simulated(1)
async def test_a_subscription_reaches_every_broker(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1, 2))
    await world.start()
    await world.ensemble.connect().set(FEATURE, FinalizedFeatures(NEWEST_LEVELS.above_zero).encode())
    await world.until(lambda: all(b.services.features.levels == NEWEST_LEVELS for b in world.live.values()))
    assert await offered(world) == set(), "clients need not ask while there is none"
    assert await change(world, "a/b ..", metrics="org.", interval_ms="100") == (0, None)
    stored = world.live[2].services.subscription_configs.stored
    await world.until(lambda: "a/b .." in stored)
    assert await offered(world) == KEYS
    answer = await told(world, 2)
    assert (answer.requested_metrics, answer.push_interval_ms) == (["org."], 100)
    push = PushTelemetryRequest(
        client_instance_id=answer.client_instance_id,
        subscription_id=answer.subscription_id,
        terminating=False,
        compression_type=0,
        metrics=pushed(gauge("org.a", 7)),
    )
    response: Any = await world.ask(2, push, 0, PushTelemetryResponse)
    assert response.error_code == 0
    assert " 7\n" in "".join(world.live[2].services.telemetry.series.page())

    assert await change(world, "a/b ..", metrics=None, interval_ms=None) == (0, None)
    await world.until(lambda: not stored)
    assert (await told(world, 2)).requested_metrics == []
    assert await offered(world) == set()
    assert await world.ensemble.connect().children("/config/changes") == [], "3.9.1 logs an error for those"


@simulated(2)
async def test_without_levels_there_are_none_as_in_3_9(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1,))
    await world.start()
    assert await offered(world) == set()
    assert await change(world, "s", metrics="org.") == (
        ErrorCode.INVALID_REQUEST,
        "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
    )
