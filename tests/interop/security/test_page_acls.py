"""The steps of docs/security.md about ACLs, pasted as they stand there; only the port changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.commands.test_readme import commands, run_shell
from tests.interop.security.security_page import blocks_of, started

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

START, *STEPS = blocks_of("ACLs")


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[tuple[str, Path]]:
    """The address and the folder of a broker that the first block has started."""
    folder = tmp_path_factory.mktemp("pasted")
    with started(START, folder, commands) as bootstrap:
        yield bootstrap, folder


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
    [block] = blocks_of("ACLs", "json")
    assert [json.loads(line)["event"] for line in block.splitlines()] == ["denied", "action", "login_failed"]
