"""The controller's channel to another broker: control requests over one connection, in versions that all brokers support.

Rules: one request at a time; `channels` decides whether to send it again after an OSError. The address
is that of the broker's registration.
Source: Kafka ControllerChannelManager (addNewBroker), RequestSendThread.
"""

from __future__ import annotations

from collections.abc import Callable

from client.event_loop.broker_client import BrokerClient
from client.event_loop.connector import Connector
from config.inter_broker_version import InterBrokerVersion
from controller.requests import request_versions
from controller.requests.channels import BrokerChannel, ControlResponse
from controller.requests.request_batch import ControlRequest
from metadata.store.znodes import BrokerRegistration
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from runtime.network.transport import Address


class NetworkChannel:
    """Implements `controller.requests.channels.BrokerChannel`."""

    def __init__(self, client: BrokerClient, version: InterBrokerVersion) -> None:
        self._client = client
        self._version = version

    async def send(self, request: ControlRequest) -> ControlResponse:
        version = request_versions.request_version(self._version, request)
        match request:
            case LeaderAndIsrRequest():
                response = await self._client.send(
                    request_versions.leader_and_isr(request, version), version, LeaderAndIsrResponse
                )
                return request_versions.newest_leader_and_isr_response(request, response, version)
            case UpdateMetadataRequest():
                return await self._client.send(
                    request_versions.update_metadata(request, version), version, UpdateMetadataResponse
                )
            case StopReplicaRequest():
                return request_versions.joined_stop_replica_response(
                    [
                        await self._client.send(each, version, StopReplicaResponse)
                        for each in request_versions.stop_replica(request, version)
                    ]
                )

    def close(self) -> None:
        self._client.close()


def network_channels(
    connector: Connector, controller_id: int, listener: str, version: InterBrokerVersion, *, timeout_ms: int
) -> Callable[[BrokerRegistration], BrokerChannel]:
    """Return a function that makes channels to brokers through `listener`. `timeout_ms` is controller.socket.timeout.ms."""

    def connect(registration: BrokerRegistration) -> BrokerChannel:
        def address() -> Address | None:
            for endpoint in registration.endpoints:
                if endpoint.listener == listener:
                    return Address(endpoint.host, endpoint.port)
            return None  # it has no such listener, and cannot be reached until it registers again

        return NetworkChannel(BrokerClient(connector, address, str(controller_id), timeout_ms=timeout_ms), version)

    return connect
