"""Every scenario of `tests/scenarios/transactions` leads to what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.coordinator.transaction.scenario import run, scenario_files


@pytest.mark.parametrize("path", scenario_files(), ids=lambda path: path.stem)
def test_scenario_leads_to_what_it_says(path: Path) -> None:
    text = path.read_text()
    happened = run(text)
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(happened)
    assert happened == text


def test_there_are_scenarios() -> None:
    assert len(scenario_files()) >= 6
