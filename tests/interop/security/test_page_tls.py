"""The steps of docs/security.md about TLS, pasted as they stand there; only the port changes."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.commands.test_readme import commands, run_shell
from tests.interop.security.security_page import blocks_of, started
from tests.oracle.process import wait_until

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

START, CLIENT, RENEWAL = blocks_of("TLS")


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[tuple[str, Path]]:
    """The address and the folder of a broker that the first block has started."""
    folder = tmp_path_factory.mktemp("pasted")
    with started(START, folder, commands) as bootstrap:
        yield bootstrap, folder


def test_the_steps_work_when_pasted(pasted: tuple[str, Path], commands: Path) -> None:
    bootstrap, folder = pasted
    assert "first order" in run_shell(CLIENT, bootstrap, folder, commands)

    def shown() -> str:
        """The certificate that clients are shown: they see it before they have to show their own."""
        host, port = bootstrap.split(":")
        return ssl.get_server_certificate((host, int(port)))

    before = shown()
    run_shell(RENEWAL, bootstrap, folder, commands)
    assert wait_until(lambda: shown() != before, 30)
    assert shown().split() == (folder / "renewed.crt").read_text().split()
    assert "PRIVATE KEY" not in (folder / "log").read_text()
