"""Pages of other sites, in a browser that reaches the web process of a cluster without logins which may be changed: they change
nothing, read nothing, and show nothing of it.

The other site is on another port of this host, by a name that is the same site and by one that is not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from barnabas.embedded import EmbeddedBroker
from tests.web.browser.chromium import PATIENCE_MS, chromium, needs_chromium
from tests.web.running import WRITES, running_web

pytestmark = [needs_chromium, pytest.mark.timeout(120)]

ATTACK = """
async ([target, cluster]) => {
  const json = { "Content-Type": "application/json" };
  const topic = JSON.stringify({ topic_name: "of-an-attacker" });
  const ends = (element, name) => new Promise((end) => {
    element.onload = () => end(`${name}: loaded`);
    element.onerror = () => end(`${name}: refused`);
    document.body.append(element);
  });
  const asked = (name, path, options) => fetch(`${target}${path}`, options).then(
    () => `${name}: loaded`, () => `${name}: refused`);
  const element = (kind, attributes) => Object.assign(document.createElement(kind), attributes);
  const form = element("form", { method: "post", enctype: "text/plain", action: `${target}/topics/orders`, target: "sink" });
  form.append(element("input", { name: '{"records": [{"value": "', value: '"}]}' }));
  const sink = element("iframe", { name: "sink" });
  document.body.append(sink, form);
  const sent = new Promise((end) => { sink.onload = end; });
  form.submit();
  await sent;
  const stream = new EventSource(`${target}/api/topics/orders/messages/follow`);
  const streamed = new Promise((end) => {
    stream.onopen = () => end("stream: loaded");
    stream.onerror = () => end("stream: refused");
  });
  const opened = window.open(`${target}/ui/`);
  const found = [
    await asked("read", "/api/session"),
    await asked("read without asking", "/api/session", { mode: "no-cors" }),
    await asked("read clusters", "/v3/clusters", { mode: "no-cors" }),
    await asked("create", `/v3/clusters/${cluster}/topics`, { method: "POST", body: topic, headers: json }),
    await asked("create without asking", `/v3/clusters/${cluster}/topics`, { method: "POST", body: topic, mode: "no-cors" }),
    await asked("produce", "/topics/orders", { method: "POST", mode: "no-cors", body: '{"records": [{"value": "x"}]}' }),
    await asked("produce nothing", "/topics/orders", { method: "POST", mode: "no-cors" }),
    await asked("delete", `/v3/clusters/${cluster}/topics/orders`, { method: "DELETE" }),
    await asked("log in", "/api/session", { method: "POST", mode: "no-cors", body: "{}" }),
    await ends(element("script", { src: `${target}/api/session` }), "script"),
    await ends(element("script", { src: `${target}/static/app.js`, type: "module" }), "module"),
    await ends(element("img", { src: `${target}/static/icon.svg` }), "image"),
    await ends(element("link", { rel: "stylesheet", href: `${target}/static/style.css` }), "style"),
    await streamed,
  ];
  stream.close();
  const look = () => { try { return `window: ${opened.location.href}`; } catch { return "window: refused"; } };
  let window_ = look();  // it is ours until it has the page of the other origin
  for (let left = 500; left && window_ === "window: about:blank"; left--) {
    await new Promise((end) => setTimeout(end, 20));
    window_ = look();
  }
  return [...found, window_];
}
"""
FRAME = """
(url) => new Promise((end) => {
  document.body.append(Object.assign(document.createElement("iframe"), { src: url, onload: end, onerror: end }));
})
"""


@contextmanager
def other_site() -> Iterator[int]:
    """A site with an empty page, and its port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_what: object) -> None:
            """Keep the output of tests clean."""

        def do_GET(self) -> None:
            content = b"<!doctype html><title>other</title><body></body>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield http.server_address[1]
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("--host-resolver-rules=MAP evil.example.com 127.0.0.1") as one:
        yield one


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with EmbeddedBroker(["orders"]) as broker, running_web(broker.bootstrap_servers, WRITES) as web:
        yield web.url


def cluster_of(target: str) -> str:
    return str(httpx.get(f"{target}/v3/clusters").json()["data"][0]["cluster_id"])


def state_of(target: str) -> Any:
    """Everything that an attacker would change."""
    with httpx.Client(base_url=target) as client:
        topics = [each["topic_name"] for each in client.get(f"/v3/clusters/{cluster_of(target)}/topics").json()["data"]]
        return topics, client.get("/topics/orders/partitions/0/offsets").json()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "evil.example.com"])
def test_a_page_of_another_site_changes_reads_and_shows_nothing(browser: Browser, target: str, host: str) -> None:
    before = state_of(target)
    with other_site() as port, browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"http://{host}:{port}/")
        told = page.evaluate(ATTACK, [target, cluster_of(target)])
        assert [each for each in told if not each.endswith(": refused")] == []
        page.evaluate(FRAME, f"{target}/ui/")
        assert len(page.frames) == 3
        assert not any("Barnabas" in frame.content() for frame in page.frames)
    assert state_of(target) == before


def test_a_name_that_another_site_points_here_is_refused(browser: Browser, target: str) -> None:
    port = target.rpartition(":")[2]
    with browser.new_context() as context:
        page = context.new_page()
        for path in ("/ui/", "/api/session", "/v3/clusters"):
            answer = page.goto(f"http://evil.example.com:{port}{path}")
            assert answer is not None
            assert answer.status == 403
            assert "Host is no name of this server" in answer.text()
