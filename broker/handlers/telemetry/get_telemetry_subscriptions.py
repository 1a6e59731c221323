"""GetTelemetrySubscriptions (key 71): a client asks which of its metrics it shall push, and how often.

Behaviour: a client without an id gets one. Without a subscription that it matches it has nothing to push. One that asks before
its interval is over is refused, unless its last push was about another subscription or codec.
Rights: none, as in Apache Kafka.
Source: KIP-714; Kafka 4.3 KafkaApis.handleGetTelemetrySubscriptionsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from security.access import NOTHING


@handles(GetTelemetrySubscriptionsRequest, NOTHING)
async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    """Raises KafkaError."""
    return context.services.telemetry.ask(request, context)
