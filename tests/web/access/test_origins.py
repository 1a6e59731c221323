"""Which requests of other sites, other names and other programs are let in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from web.access.origins import IncomingRequest, OwnHosts, problem_of

BASE = "https://kafka.example.com"
HOSTS = OwnHosts(BASE, ["10.1.1.1:8443", "other.example.com"])
CSRF = "the-secret"
GET = IncomingRequest("GET", "/api/topics", "https", "kafka.example.com")
CURL = replace(GET, method="POST", user_agent="curl/8.5", content_type="application/json", has_body=True)
PAGE = replace(CURL, user_agent="Mozilla/5.0", origin=BASE, fetch_site="same-origin", csrf=CSRF)
LINK = IncomingRequest(
    "GET", "/ui/topics", "https", "kafka.example.com", fetch_site="cross-site", user_agent="Mozilla/5.0"
)


@pytest.mark.parametrize(
    "asked",
    [
        GET,
        CURL,
        PAGE,
        LINK,
        replace(LINK, path="/"),
        replace(LINK, path="/static/app.js", method="HEAD"),
        replace(GET, fetch_site="none", user_agent="Mozilla/5.0"),
        replace(PAGE, fetch_site=None),
        replace(PAGE, origin=None),
        replace(PAGE, content_type="text/plain"),
        replace(CURL, has_body=False, content_type=None),
        replace(CURL, content_type="application/vnd.kafka.json.v2+json"),
        replace(CURL, content_type=None, has_authorization=True),
        replace(PAGE, host="kafka.example.com:443", origin="https://KAFKA.example.com"),
        replace(PAGE, host="other.example.com", origin="https://other.example.com"),
        replace(PAGE, host="10.1.1.1:8443", origin="https://10.1.1.1:8443"),
        replace(PAGE, host="127.0.0.1:8082", origin="http://127.0.0.1:8082", scheme="http"),
        replace(PAGE, host="[::1]:8082", origin="http://[::1]:8082", scheme="http"),
        replace(PAGE, host="localhost:9000", origin="http://localhost:9000", scheme="http"),
        replace(PAGE, host="127.0.0.1:8082", scheme="http"),  # a proxy asks by another name
    ],
    ids=repr,
)
def test_what_is_let_in(asked: IncomingRequest) -> None:
    assert problem_of(asked, HOSTS, CSRF) is None


@pytest.mark.parametrize(
    "asked",
    [
        # Names that are not this process's: a rebound name, a port that is not open, what is no name at all.
        replace(GET, host="evil.example.com"),
        replace(LINK, host="evil.example.com"),
        replace(GET, host="kafka.example.com:8443"),
        replace(GET, host="10.1.1.1"),
        replace(GET, host="localhost.evil.example.com"),
        replace(GET, host="kafka.example.com@evil.example.com"),
        replace(GET, host="kafka.example.com/"),
        replace(GET, host=""),
        # Pages of other sites, and of other ports of this host.
        replace(GET, fetch_site="cross-site"),
        replace(GET, fetch_site="same-site"),
        replace(GET, origin="https://evil.example.com"),
        replace(GET, path="/v3/clusters", fetch_site="cross-site"),
        replace(GET, path="/topics", fetch_site="cross-site"),
        replace(GET, path="/ui", method="POST", origin="https://evil.example.com"),
        replace(PAGE, fetch_site="cross-site"),
        replace(PAGE, fetch_site="something-new"),
        replace(PAGE, origin="https://evil.example.com"),
        replace(PAGE, origin="https://evil.example.com", fetch_site=None, has_authorization=True),
        replace(PAGE, origin="null"),
        replace(PAGE, origin=""),
        replace(PAGE, origin="http://kafka.example.com"),
        replace(PAGE, origin="https://kafka.example.com:8443"),
        replace(PAGE, origin="https://kafka.example.com.evil.example.com"),
        replace(PAGE, origin="https://kafka.example.com/path"),
        replace(PAGE, host="127.0.0.1:8082", origin="http://127.0.0.1:3000", scheme="http"),
        # Browsers without the secret of the page.
        replace(PAGE, csrf=None),
        replace(PAGE, csrf=""),
        replace(PAGE, csrf="the-secreT"),
        replace(PAGE, csrf="gehe\u0131m"),
        replace(CURL, has_cookie=True),
        replace(CURL, user_agent="Mozilla/5.0"),
        replace(CURL, fetch_site="none"),
        # What a form of another site can send without asking first.
        replace(CURL, content_type=None),
        replace(CURL, content_type="text/plain;charset=UTF-8"),
        replace(CURL, content_type="application/x-www-form-urlencoded"),
        replace(CURL, content_type=" Multipart/Form-Data; boundary=x"),
    ],
    ids=repr,
)
def test_what_is_refused(asked: IncomingRequest) -> None:
    assert problem_of(asked, HOSTS, CSRF) is not None
