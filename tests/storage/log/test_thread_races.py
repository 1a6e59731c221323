"""See `thread_races`: a few plans of it; more of them with `python -m tests.storage.log.thread_races`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.log.thread_races import run_history


@pytest.mark.parametrize("seed", range(6))
def test_threads_of_one_log_hold_up_nothing_and_lose_nothing(tmp_path: Path, seed: int) -> None:
    run_history(seed, tmp_path)
