"""The steps of docs/security.md about TLS, pasted as they stand there; only the port changes."""

from __future__ import annotations

import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.interop.test_readme import commands, environment, read, run_shell
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

[TLS] = re.findall(r"^## TLS\n(.*?)^## ", read("docs/security.md"), re.DOTALL | re.MULTILINE)
START, CLIENT, RENEWAL = re.findall(r"^```sh\n(.*?)^```", TLS, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[tuple[str, Path]]:
    """The address and the folder of a broker that the first block has started."""
    need_java()
    folder, port = tmp_path_factory.mktemp("pasted"), lasting_port()
    bootstrap = f"localhost:{port}"
    script = START.replace("localhost:9092", bootstrap).replace("barnabas start", "exec barnabas start")
    with (folder / "log").open("w") as log:
        broker = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=folder, env=environment(commands), stdout=log, stderr=log
        )
    try:
        assert wait_until(lambda: "broker ready" in (folder / "log").read_text(), 60), (folder / "log").read_text()
        yield bootstrap, folder
    finally:
        broker.terminate()
        broker.wait(30)


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
