"""Makes the settings of share groups before anybody joins them."""

from __future__ import annotations

from client.errors import ClusterUnavailable
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.shares.plan import SharePlan
from tests.simulation.shares.world import ShareWorld

GROUP_RESOURCE = 32
SET = 0


async def make_settings(world: ShareWorld, name: str, plan: SharePlan) -> None:
    """Until they are there."""
    cluster = ObservedCluster(world, name, NoObserver())
    request = IncrementalAlterConfigsRequest(
        validate_only=False,
        resources=[
            AlterConfigsResource(
                resource_type=GROUP_RESOURCE,
                resource_name=plan.name,
                configs=[
                    AlterableConfig(name=key, config_operation=SET, value=value) for key, value in plan.configs.items()
                ],
            )
        ],
    )
    line = world.line(name)
    while True:
        try:
            response = await cluster.send_to_any(request, IncrementalAlterConfigsResponse)
        except (OSError, KafkaError, ClusterUnavailable):
            await line.pause()
            continue
        [row] = response.responses
        if row.error_code == ErrorCode.NONE:
            break
        if row.error_code not in world.not_now:
            world.report(f"{name}: settings of {plan.name} were answered {ErrorCode.of(row.error_code)!r}")
        await line.pause()
    await cluster.close()
