"""SaslHandshake (key 17): a client that has authenticated wants to do so again, before its session ends.

Behaviour: before that, the request does not get here (`broker.network.sasl.exchange`). It is refused with ILLEGAL_SASL_STATE
on a listener without SASL, where sessions do not end, and within a second of the last time.
Source: Kafka KafkaApis.handleSaslHandshakeRequest, KafkaChannel.maybeBeginServerReauthentication; KIP-368.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from security.access import NOTHING


@handles(SaslHandshakeRequest, NOTHING)
async def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse | None:
    reauthentication = context.connection.reauthentication
    refused = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    if reauthentication is None:
        return refused
    try:
        return reauthentication.begin_again(request, context.api_version, context.correlation_id)
    except ValueError:
        return refused
