"""The HTTP port of the command: /metrics and /metrics/clients of all brokers, /ready when all are, /live.

Rules: what brokers know of themselves is asked of their own HTTP ports, side by side, within ASK_TIMEOUT_S; who does not
answer is not ready and has no samples. A request costs each broker one. No name is looked up, for which a thread would be
needed (`barnabas.supervisor.child`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from barnabas.supervisor.pages import merged_page, own_lines
from barnabas.supervisor.supervised_process import SupervisedProcess
from runtime.monitoring.http_port import METRICS_TYPE, OK, UNAVAILABLE
from runtime.network.transport import Address, is_every_interface

TYPES = {b"/metrics": METRICS_TYPE, b"/metrics/clients": METRICS_TYPE}
ASK_TIMEOUT_S = 5.0
_LOOPBACK = "127.0.0.1"


def numeric_address(address: Address) -> Address:
    """Return where an HTTP port is reached from this machine, without a name. Blocks; before the event loop. Raises OSError."""
    if is_every_interface(address.host) or address.host == "localhost":
        return Address(_LOOPBACK, address.port)
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return Address(str(found[0][4][0]), address.port)


class HttpPages:
    """The pages about `brokers`, whose HTTP ports are at `addresses`."""

    def __init__(self, brokers: Sequence[SupervisedProcess], addresses: Sequence[Address]) -> None:
        self._brokers = list(zip(brokers, addresses, strict=True))

    async def page(self, path: bytes) -> tuple[str, bytes]:
        match path:
            case b"/live":
                return OK, b"live\n"
            case b"/ready":
                return await self._ready()
            case b"/metrics":
                return OK, (await self._metrics()).encode()
            case b"/metrics/clients":
                return OK, merged_page(await self._pages("/metrics/clients"), ()).encode()
            case _:
                return (
                    "404 Not Found",
                    b"there are /metrics, /metrics/clients, /ready and /live; /health has each broker on its own port\n",
                )

    async def _ready(self) -> tuple[str, bytes]:
        answers = await self._ask_all("/ready")
        lines, are_ready = [], True
        for (member, _), answer in zip(self._brokers, answers, strict=True):
            status, text = answer or ("", "it does not serve\n")
            are_ready = are_ready and status == OK
            lines += [f"{member.name}: {line}" for line in text.splitlines()]
        return OK if are_ready else UNAVAILABLE, "\n".join(["ready" if are_ready else "not ready", *lines, ""]).encode()

    async def _pages(self, path: str) -> dict[int, str]:
        """Return the pages of those brokers that answer, by id."""
        answers = await self._ask_all(path)
        return {
            member.broker_id: answer[1]
            for (member, _), answer in zip(self._brokers, answers, strict=True)
            if answer is not None and answer[0] == OK and member.broker_id is not None
        }

    async def _metrics(self) -> str:
        told = {
            member.broker_id: (member.facts is not None, member.restarts)
            for member, _ in self._brokers
            if member.broker_id is not None
        }
        return merged_page(await self._pages("/metrics"), own_lines(told))

    async def _ask_all(self, path: str) -> list[tuple[str, str] | None]:
        return await asyncio.gather(
            *(_ask(address, path) if one.child else _nobody() for one, address in self._brokers)
        )


async def _nobody() -> None:
    return None


async def _ask(address: Address, path: str) -> tuple[str, str] | None:
    """Return the status and the text of a page; None if nobody answers in time."""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    head, gap, body = answer.partition(b"\r\n\r\n")
    _, _, status = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    return (status, body.decode("utf-8", "replace")) if gap else None
