"""The steps of docs/security.md about SASL, pasted as they stand there; only the port changes."""

from __future__ import annotations

import re
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

SECTIONS = re.split(r"^## ", read("docs/security.md"), flags=re.MULTILINE)
[SASL] = [section for section in SECTIONS if section.startswith("SASL\n")]
START, *STEPS = re.findall(r"^```sh\n(.*?)^```", SASL, re.DOTALL | re.MULTILINE)


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
    signed_in, users = (run_shell(block, bootstrap, folder, commands) for block in STEPS)
    assert "first order" in signed_in
    assert re.search(r"^bob +SCRAM-SHA-512 \(4096 iterations\)$", users, re.MULTILINE), users
    assert "password of bob is deleted" in users
    assert "SCRAM-SHA-512=iterations=4096" in users
    assert not re.search(r"(admin|alice|bob)-secret", (folder / "log").read_text())
