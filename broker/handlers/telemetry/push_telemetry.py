"""PushTelemetry (key 72): a client pushes its metrics, in OTLP, compressed or not.

Behaviour: what it pushed is shown at /metrics/clients. A push that comes too early, that is for other subscriptions than the
client has now, too large, or that cannot be read is refused; after a last push there are no more.
Rights: none, as in Apache Kafka.
Source: KIP-714; Kafka 4.3 KafkaApis.handlePushTelemetryRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from security.access import NOTHING


@handles(PushTelemetryRequest, NOTHING)
async def push_telemetry(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    return PushTelemetryResponse(throttle_time_ms=0, error_code=await context.services.telemetry.push(request, context))
