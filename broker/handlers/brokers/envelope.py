"""Envelope (key 58): a broker passes a client's request on to the controller (KIP-590).

Behaviour: advertised and refused, as by Apache Kafka in ZooKeeper mode, whose brokers do not forward requests: the connection
is closed. What is in the envelope is not read.
Source: Kafka KafkaApis.handleEnvelope, ForwardingManager.
"""

from __future__ import annotations

from typing import NoReturn

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import CloseConnection
from protocol.messages.envelope import EnvelopeRequest
from security.access import NOTHING


@handles(EnvelopeRequest, NOTHING)
async def envelope(_request: EnvelopeRequest, _context: RequestContext) -> NoReturn:
    raise CloseConnection("it sent an Envelope, and requests are not forwarded")
