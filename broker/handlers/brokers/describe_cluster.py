"""DescribeCluster (key 60): the cluster's id, controller and live brokers on the client's listener.

Behaviour: this is a broker's endpoint; from v1 on a request for controllers' endpoints (type 2) is
MISMATCHED_ENDPOINT_TYPE, one for any other type UNSUPPORTED_ENDPOINT_TYPE. Authorized operations are the
client's own; none, if it may not describe the cluster. From v2 on a client may ask for fenced brokers, too: a cluster whose
members have sessions in the store has none.
Source: KIP-700, KIP-919, KIP-1073; Kafka AuthHelper.computeDescribeClusterResponse.
"""

from __future__ import annotations

from broker.handlers.authorized_operations import cluster_operations
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from security.access import NOTHING

BROKERS = 1
CONTROLLERS = 2


@handles(DescribeClusterRequest, NOTHING)
async def describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return _refusal(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return _refusal(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, message)
    image = context.services.metadata.image
    brokers = []
    for broker in image.brokers.values():
        endpoint = context.services.advertised.endpoint(
            image, broker.broker_id, context.listener, context.local_address
        )
        if endpoint is not None:
            brokers.append(
                DescribeClusterBroker(
                    broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    response = DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        cluster_id=image.cluster_id or "",
        controller_id=image.controller_id,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _refusal(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time_ms=0, error_code=code, error_message=message, cluster_id="", brokers=[]
    )
