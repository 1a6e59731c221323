"""Which versions another broker offers: brokers of one cluster may be of different releases, or learn of a feature level later.

Source: Kafka NodeApiVersions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from client.event_loop.broker_client import BrokerClient
    from protocol.schema import Request


async def newest_offered(client: BrokerClient, request: type[Request]) -> int:
    """Return the newest version of a request that the broker offers, -1 for none. Raises OSError."""
    response = await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return next((row.max_version for row in response.api_keys if row.api_key == request.api_key), -1)
