"""The page over TLS: by certificates that are replaced while it serves."""

from __future__ import annotations

import logging
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from client.settings.values import SettingsError
from config.web import WebSettings
from tests.barnabas.supervisor.several import until
from tests.tls_certificates import authority, issued
from tests.web.running import ROOT, running_web
from web.certificates import Certificates


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority().certificate)


def subject_of(url: str) -> str:
    """The name in the certificate that the server shows."""
    with httpx.Client(verify=trusting(), trust_env=False) as client, client.stream("GET", f"{url}/") as answer:
        shown = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
    return str(dict(pair for (pair,) in shown["subject"])["commonName"])


def replace(path: Path, name: str) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(issued(name, "127.0.0.1").both)
    os.replace(beside, path)


def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "page.pem"
    replace(path, "first")
    with running_web("127.0.0.1:1", {"barnabas.web.ssl.keystore.location": str(path)}) as web:
        assert web.url.startswith("https://127.0.0.1:")
        assert subject_of(web.url) == "first"
        replace(path, "second")
        web.process.send_signal(signal.SIGHUP)
        until(lambda: subject_of(web.url) == "second")
        with pytest.raises(httpx.ReadError if sys.version_info < (3, 11) else httpx.HTTPError):
            httpx.get(web.url.replace("https", "http"), trust_env=False)


async def test_one_that_cannot_be_used_leaves_the_former(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "page.pem"
    replace(path, "first")
    certificates = Certificates(WebSettings({"barnabas.web.ssl.keystore.location": str(path)}))
    caplog.set_level(logging.INFO)
    path.write_text("no certificate")
    await certificates.check()
    await certificates.check()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"barnabas.web.ssl.keystore.location={path}" in caplog.text
    path.unlink()
    await certificates.check()
    replace(path, "second")
    await certificates.check()
    assert caplog.records[-1].getMessage() == "certificate replaced"


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "No such file"), ("nothing", "barnabas.web.ssl.keystore.location")]
)
def test_a_start_names_the_setting(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "page.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=reason):
        Certificates(WebSettings({"barnabas.web.ssl.keystore.location": str(path)}))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["barnabas.web.host=0.0.0.0"], "barnabas.web.host=0.0.0.0 can be reached from other machines"),
        (["barnabas.web.prot=1"], "unknown setting barnabas.web.prot: did you mean barnabas.web.port?"),
        (["security.protocol=SSH"], "security.protocol=SSH is not one of"),
    ],
)
def test_what_cannot_start_says_why(options: list[str], reason: str) -> None:
    words = [word for option in options for word in ("--override", option)]
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.cli", "web", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
