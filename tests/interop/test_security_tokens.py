"""The steps of docs/security.md about bearer tokens and delegation tokens, pasted as they stand there but for the port."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.interop.test_readme import commands, environment, read, run_shell
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

SECTIONS = {
    section.partition("\n")[0]: section for section in re.split(r"^## ", read("docs/security.md"), flags=re.MULTILINE)
}


def blocks_of(section: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)


@contextmanager
def started(block: str, folder: Path, commands: Path) -> Iterator[str]:
    """The address of a broker that the block has started."""
    need_java()
    bootstrap = f"localhost:{lasting_port()}"
    script = block.replace("localhost:9092", bootstrap).replace("barnabas start", "exec barnabas start")
    log = folder / "log"
    with log.open("w") as output:
        broker = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=folder, env=environment(commands), stdout=output, stderr=output
        )
    try:
        assert wait_until(lambda: "broker ready" in log.read_text(), 60), log.read_text()
        yield bootstrap
    finally:
        broker.terminate()
        broker.wait(30)


def test_bearer_tokens(tmp_path: Path, commands: Path) -> None:
    start, use = blocks_of("Bearer tokens")
    with started(start, tmp_path, commands) as bootstrap:
        assert "first order" in run_shell(use, bootstrap, tmp_path, commands)
    token = (tmp_path / "alice.token").read_text()
    assert token and token[:40] not in (tmp_path / "log").read_text()


def test_delegation_tokens(tmp_path: Path, commands: Path) -> None:
    start, use = blocks_of("Delegation tokens")
    with started(start, tmp_path, commands) as bootstrap:
        assert "first order" in run_shell(use, bootstrap, tmp_path, commands)
    found = re.search(r'password="([^"]{80,})"', (tmp_path / "token.properties").read_text())
    assert found is not None
    log = (tmp_path / "log").read_text()
    for secret in ("alice-secret", "admin-secret", "a-secret-of-all-brokers", found[1]):
        assert secret not in log
