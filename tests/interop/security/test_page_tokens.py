"""The steps of docs/security.md about bearer tokens and delegation tokens, pasted as they stand there but for the port."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.commands.test_readme import commands, run_shell
from tests.interop.security.security_page import blocks_of, started

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]


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
