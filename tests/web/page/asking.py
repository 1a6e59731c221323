"""A client of the page's endpoints, which says what status it expects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.web.running import WRITES, app_client

PATIENCE_S = 60.0


class PageClient:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        return self._checked(await self.http.get(f"/api/{path}", params=query), status)

    async def post(self, path: str, body: Any, status: int = 200) -> Any:
        return self._checked(await self.http.post(f"/api/{path}", json=body), status)

    async def refused(self, path: str, body: Any, status: int) -> tuple[str, str]:
        """Return the code and the text of an error."""
        error = (await self.post(path, body, status))["error"]
        return error["code"], error["message"]

    async def when(self, path: str, is_so: Callable[[Any], bool]) -> Any:
        """Return the answer once it is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(found := await self.get(path)):  # noqa: ASYNC110  the cluster tells nobody
                await asyncio.sleep(0.02)
        return found

    @staticmethod
    def _checked(response: httpx.Response, status: int) -> Any:
        assert response.status_code == status, response.text
        return response.json()


@asynccontextmanager
async def page_client(servers: str, settings: Mapping[str, str] = WRITES) -> AsyncIterator[PageClient]:
    async with app_client(servers, settings) as http:
        yield PageClient(http)
