"""Users of a secured cluster, and how a browser and a program ask the web process in their name."""

from __future__ import annotations

import base64

import httpx
from fastapi import APIRouter

from tests.web.running import BASE_URI, WRITES
from web.requests import WRITING, Cluster

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
ACLS = ["alice describe topic orders", "bob describe topic secrets"]
BROWSER = {"Origin": BASE_URI, "Sec-Fetch-Site": "same-origin", "User-Agent": "Mozilla/5.0"}
SETTINGS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **WRITES}
"""Of a web process without a login of its own."""


def who() -> APIRouter:
    """Endpoints that say as whom they have been asked, and what that user sees."""
    router = APIRouter()

    @router.get("/api/who")
    async def ask(cluster: Cluster) -> dict[str, object]:
        return {"name": cluster.name, "topics": sorted(await cluster.topics())}

    @router.post("/api/who", dependencies=[WRITING])
    async def change(cluster: Cluster) -> str:
        return cluster.name

    return router


def basic(user: str, password: str | None = None) -> dict[str, str]:
    """The header of a program that has a password, the right one if no other is given."""
    pair = f"{user}:{USERS[user] if password is None else password}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


class Page:
    """A page in a browser: it sends its secret, and where it comes from."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.csrf = ""

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        sent = {**BROWSER, "X-Barnabas-CSRF": self.csrf, **headers}
        return await self.client.request(method, path, json=body, headers=sent)

    async def log_in(self, user: str = "alice", password: str | None = None, **headers: str) -> httpx.Response:
        self.csrf = (await self.ask("GET", "/api/session")).json()["csrf"]
        given = {"user": user, "password": USERS[user] if password is None else password}
        answer = await self.ask("POST", "/api/session", given, **headers)
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer
