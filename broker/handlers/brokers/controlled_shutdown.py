"""ControlledShutdown (key 7): a broker that is about to stop asks the controller to move its leaderships.

Behaviour: the response has the partitions that could not be moved, so that the broker retries; STALE_CONTROLLER_EPOCH on
other brokers.
Versions: v0 has a request header without client id; v2 broker epochs (an old one: STALE_BROKER_EPOCH).
Source: KIP-380; Kafka KafkaController.controlledShutdown.
"""

from __future__ import annotations

from typing import cast

from broker.cluster.controller_channel import controller_response
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from security.access import Operation, on_cluster


@handles(ControlledShutdownRequest, on_cluster(Operation.CLUSTER_ACTION))
async def controlled_shutdown(
    request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    controller = context.services.controller
    return cast(ControlledShutdownResponse, await controller_response(controller, request, context.api_version))
