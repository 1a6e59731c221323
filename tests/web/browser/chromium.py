"""Debian's Chromium over the page of a web process. Where it is not installed, these tests skip, on a build server as well.

Rules: what the page writes to the console as an error, or throws, fails the test; so does a resource that the page's own
security policy refuses. Screenshots are kept where BARNABAS_ARTEFACTS names a folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARTEFACTS = os.environ.get("BARNABAS_ARTEFACTS")
PATIENCE_MS = 20_000
WIDTH, HEIGHT = 1400, 900
# A refused request is an answer, which the page tells; Chromium writes it to the console all the same.
_ANSWERS = "Failed to load resource: the server responded with a status of"
_SERIOUS = ("serious", "critical")
expect.set_options(timeout=PATIENCE_MS)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """A browser with these options, which takes a second to start: one for a module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *options])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, *, scheme: str = "light") -> Iterator[Page]:
    """A page in a context of its own, at `url`. Raises AssertionError at its end for what it has complained of."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",  # what fades in has no contrast meanwhile
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        # What has no address is of a test: axe-core sets styles, which the page's policy refuses.
        if message.type == "error" and message.location["url"] and not message.text.startswith(_ANSWERS):
            complaints.append(message.text)

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
    assert not complaints, complaints


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of the page as `name`.png, where artefacts are kept."""
    if ARTEFACTS:
        Path(ARTEFACTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{ARTEFACTS}/{name}.png")


def assert_accessible(page: Page) -> None:
    """Raises AssertionError for what axe-core calls serious or critical."""
    violations = Axe().run(page).response["violations"]
    found = [
        f"{each['id']}: {each['help']}: {[node['html'] for node in each['nodes']][:3]}"
        for each in violations
        if each["impact"] in _SERIOUS
    ]
    assert not found, found
