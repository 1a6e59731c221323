"""What every request passes before an endpoint, and what every answer has."""

from __future__ import annotations

import pytest

from tests.web.access.secured import BROWSER, SETTINGS, Page, who
from tests.web.running import WRITES, app_client
from web.access.headers import CONTENT_SECURITY_POLICY

NOWHERE = "127.0.0.1:1"
PROXY = {
    **SETTINGS,
    "barnabas.web.trusted.proxies": "10.0.0.0/24",
    "barnabas.web.base.uri": "https://kafka.example.com",
}


@pytest.mark.parametrize(
    "path", ["/", "/ui/", "/ui/topics/%3Cscript%3E", "/static/index.html", "/api/session", "/nothing", "/v3/x"]
)
async def test_headers_of_every_answer(path: str) -> None:
    async with app_client(NOWHERE) as client:
        for answer in (await client.get(path), await client.get(path, headers={"Host": "evil.example.com"})):
            assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            is_page = path.startswith(("/ui/", "/static/")) or path == "/"
            is_refused = answer.status_code == 403
            assert answer.headers["Cache-Control"] == ("no-cache" if is_page else "no-store") or is_refused
            assert not any(name.startswith("access-control-") for name in answer.headers)
        assert is_refused
    assert "unsafe" not in CONTENT_SECURITY_POLICY


async def test_a_cluster_without_logins_is_changed_by_the_page_and_by_programs_only() -> None:
    async with app_client(NOWHERE, WRITES, router=who()) as client:
        page = Page(client)
        assert (await page.ask("POST", "/api/who")).status_code == 403
        page.csrf = (await page.ask("GET", "/api/session")).json()["csrf"]
        assert (await page.ask("POST", "/api/who")).json() == "ANONYMOUS"
        assert (await client.post("/api/who", json={})).json() == "ANONYMOUS"
        for headers in (
            {"Origin": "https://evil.example.com", "X-Barnabas-CSRF": page.csrf},
            {"Origin": "null", "Content-Type": "text/plain"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:3000"},
            {"Host": "evil.example.com", "Origin": "http://evil.example.com", "X-Barnabas-CSRF": page.csrf},
        ):
            answer = await client.post("/api/who", headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "REFUSED")
        assert (await client.options("/api/who", headers=BROWSER)).status_code == 405


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "X-Barnabas-CSRF"])
async def test_a_header_that_is_there_twice_is_refused(name: str) -> None:
    async with app_client(NOWHERE) as client:
        answer = await client.get("/api/session", headers=[("Host", "127.0.0.1:8082"), (name, "x"), (name, "y")])
        assert answer.status_code == 400


@pytest.mark.parametrize(
    ("peer", "scheme", "status"),
    [("10.0.0.1", "http", 401), ("10.0.1.1", "http", 403), ("10.0.1.1", "https", 401), ("127.0.0.1", "http", 401)],
)
async def test_other_machines_come_over_tls_or_through_the_proxy(peer: str, scheme: str, status: int) -> None:
    async with app_client(NOWHERE, PROXY, router=who(), peer=peer) as client:
        assert (await client.get(f"{scheme}://127.0.0.1:8082/api/who")).status_code == status


async def test_without_logins_the_proxy_is_the_only_way_in() -> None:
    open_to_all = {"barnabas.web.trusted.proxies": "10.0.0.1"}
    for peer, status in (("10.0.0.1", 200), ("10.0.0.2", 403)):
        async with app_client(NOWHERE, open_to_all, peer=peer) as client:
            assert (await client.get("https://127.0.0.1:8082/api/session")).status_code == status


async def test_the_cookie_is_for_tls_where_the_browser_has_it() -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}
    for peer, starts, is_secure in (("10.0.0.1", "__Host-barnabas-", True), ("127.0.0.1", "barnabas-", False)):
        async with app_client(NOWHERE, PROXY, peer=peer) as client:
            page = Page(client)
            page.csrf = (await page.ask("GET", "/api/session")).json()["csrf"]
            origin = "https://kafka.example.com" if is_secure else BROWSER["Origin"]
            answer = await page.ask("DELETE", "/api/session", **forwarded, Origin=origin)
            cookie = answer.headers["Set-Cookie"]
            assert cookie.startswith(starts)
            assert ("; Secure" in cookie) == is_secure


async def test_a_proxy_that_asks_by_another_name_passes_on_the_origin_of_the_page() -> None:
    async with app_client(NOWHERE, PROXY, router=who(), peer="10.0.0.1") as client:
        for origin, status in (("https://kafka.example.com", 401), ("http://kafka.example.com", 403)):
            answer = await client.get("/api/who", headers={"Host": "localhost:8082", **BROWSER, "Origin": origin})
            assert answer.status_code == status
