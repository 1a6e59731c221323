"""The steps of docs/security.md about ACLs, pasted as they stand there; only the port changes."""

from __future__ import annotations

import json
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

SECTION = re.split(r"^## ", read("docs/security.md"), flags=re.MULTILINE)
[ACLS] = [section for section in SECTION if section.startswith("ACLs\n")]
BLOCKS = re.findall(r"^```sh\n(.*?)^```", ACLS, re.DOTALL | re.MULTILINE)
START, STEPS = BLOCKS[0], BLOCKS[1:]


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
    output = [run_shell(block, bootstrap, folder, commands) for block in STEPS]
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in output[1]
    assert "first order" in output[2]
    lines = [json.loads(line) for line in (folder / "audit.log").read_text(encoding="utf-8").splitlines()]
    actions = [(line["principal"], line["api"], line["result"]) for line in lines if line["event"] == "action"]
    assert ("User:admin", "CreateTopics", "NONE") in actions
    assert ("User:admin", "CreateAcls", "NONE") in actions
    written = (folder / "audit.log").read_text() + (folder / "log").read_text()
    assert not re.search(r"(admin|alice)-secret", written)


def test_examples_of_lines_are_json() -> None:
    [block] = re.findall(r"^```json\n(.*?)^```", ACLS, re.DOTALL | re.MULTILINE)
    assert [json.loads(line)["event"] for line in block.splitlines()] == ["denied", "action"]
