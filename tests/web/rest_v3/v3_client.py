"""A client of REST v3 that asks the application in this process about one cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.web.running import WRITES, app_client


class V3Client:
    def __init__(self, http: httpx.AsyncClient, cluster_id: str) -> None:
        self.http, self.cluster_id = http, cluster_id

    async def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        response = await self.http.request(method, f"/v3/clusters/{self.cluster_id}{path}", **options)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        return await self.ask("GET", path, status, **options)


@asynccontextmanager
async def v3_client(servers: str, settings: Mapping[str, str] = WRITES) -> AsyncIterator[V3Client]:
    async with app_client(servers, settings) as client:
        clusters = (await client.get("/v3/clusters")).json()
        yield V3Client(client, clusters["data"][0]["cluster_id"])
