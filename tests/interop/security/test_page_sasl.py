"""The steps of docs/security.md about SASL, pasted as they stand there; only the port changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.commands.test_readme import commands, run_shell
from tests.interop.security.security_page import blocks_of, started

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

START, *STEPS = blocks_of("SASL")


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[tuple[str, Path]]:
    """The address and the folder of a broker that the first block has started."""
    folder = tmp_path_factory.mktemp("pasted")
    with started(START, folder, commands) as bootstrap:
        yield bootstrap, folder


def test_the_steps_work_when_pasted(pasted: tuple[str, Path], commands: Path) -> None:
    bootstrap, folder = pasted
    signed_in, users = (run_shell(block, bootstrap, folder, commands) for block in STEPS)
    assert "first order" in signed_in
    assert re.search(r"^bob +SCRAM-SHA-512 \(4096 iterations\)$", users, re.MULTILINE), users
    assert "password of bob is deleted" in users
    assert "SCRAM-SHA-512=iterations=4096" in users
    assert not re.search(r"(admin|alice|bob)-secret", (folder / "log").read_text())
