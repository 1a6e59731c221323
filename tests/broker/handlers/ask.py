"""Ask a handler as a client would: through the bytes of one version, on a broker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.network.listening.advertised_addresses import AdvertisedAddresses
from broker.network.request_context import RequestContext
from broker.network.routes import Handler
from broker.observability.audit import AuditLog
from config.layers import Layers
from metadata.features import CurrentLevels
from protocol.schema import Request
from runtime.clock import SystemClock
from runtime.slices import SerialQueue
from security.authorizer import EverybodyAllowed
from tests.broker import contexts
from tests.broker.quota_world import quotas_of
from tests.controller.harness import Member, embedded_member


def context_of(member: Member, version: int, listener: str = "PLAINTEXT") -> RequestContext:
    layers = Layers(member.settings)
    clock = SystemClock()
    services = SimpleNamespace(
        authorizer=EverybodyAllowed(),
        audit=AuditLog(),
        clock=clock,
        serial_queue=SerialQueue(clock, asyncio.get_running_loop().call_soon),
        settings=member.settings,
        broker_id=member.broker_id,
        dynamic_settings=SimpleNamespace(settings=member.settings, layers=layers),
        metadata=member.metadata,
        advertised=AdvertisedAddresses(member.broker_id, []),
        controller=member.controller,
        topic_admin=member.topic_admin,
        producer_ids=member.producer_ids,
        quotas=quotas_of(),
        features=CurrentLevels(),
    )
    return contexts.context_of(services, version, listener=listener)


async def ask(
    handler: Handler[Any], member: Member, request: Request, version: int, listener: str = "PLAINTEXT"
) -> Any:
    """The response as the client decodes it."""
    decoded = type(request).decode(request.encode(version), version)
    response = await handler(decoded, context_of(member, version, listener))
    return type(response).decode(response.encode(version), version)


def on_a_broker(folder: Path, scenario: Callable[[Member], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with embedded_member(folder, **options) as member:
            await scenario(member)

    asyncio.run(run())
