"""SaslAuthenticate (key 36): it gets here only out of place, since the exchange of tokens has its own path.

Behaviour: refused with ILLEGAL_SASL_STATE (`broker.network.sasl.exchange` answers it in its place).
Source: Kafka KafkaApis.handleSaslAuthenticateRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from security.access import NOTHING


@handles(SaslAuthenticateRequest, NOTHING)
async def sasl_authenticate(_request: SaslAuthenticateRequest, _context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
