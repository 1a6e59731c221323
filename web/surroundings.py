"""What the web process takes from the world: time, randomness, the network, other HTTP servers, threads.

Rules: made once by `web.process`, closed by whoever made it. Tests give their own.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

from runtime.clock import Clock, SystemClock
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Network
from runtime.randomness import Randomness, system_randomness

THREADS = 8
HTTP_TIMEOUT_S = 10.0
HTTP_CONNECTIONS = 20


def _http_client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=HTTP_CONNECTIONS)
    return httpx.AsyncClient(timeout=HTTP_TIMEOUT_S, limits=limits, follow_redirects=False, trust_env=False)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`threads` run what blocks: checks of health, plans of a balance."""

    clock: Clock = field(default_factory=SystemClock)
    randomness: Randomness = field(default_factory=system_randomness)
    network: Network = field(default_factory=OsNetwork)
    http: httpx.AsyncClient = field(default_factory=_http_client)
    threads: Executor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "blocking"))

    async def close(self) -> None:
        await self.http.aclose()
        self.threads.shutdown(wait=False, cancel_futures=True)
