"""Limits of waits are judged on a machine that nobody else uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle import machine
from tests.oracle.machine import Limits, busy_share

IDLE = "cpu  100 0 50 1000 10 0 5 0 0 0\ncpu0 1 2 3\n"


def later(user: int = 0, idle: int = 0, io_wait: int = 0, stolen: int = 0) -> str:
    return f"cpu  {100 + user} 0 50 {1000 + idle} {10 + io_wait} 0 5 {stolen} {user} 0\ncpu0 1 2 3\n"


@pytest.mark.parametrize(
    ("after", "share"),
    [
        (later(idle=100), 0.0),
        (later(user=100), 1.0),
        (later(user=25, idle=50, io_wait=25), 0.25),
        (later(idle=50, stolen=50), 0.5),
        (IDLE, 0.0),
    ],
)
def test_the_share_counts_what_is_stolen_and_no_waiting_for_disks(after: str, share: float) -> None:
    assert busy_share(IDLE, after) == pytest.approx(share)


def limits(monkeypatch: pytest.MonkeyPatch, *answers: bool) -> Limits:
    given: Iterator[bool] = iter(answers)
    monkeypatch.setattr(machine, "is_ours", lambda: next(given))
    return Limits()


def test_a_broken_limit_is_told_on_a_machine_that_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    judging = limits(monkeypatch, True, True)
    judging.check(kept=True, told="a wait")
    with pytest.raises(AssertionError, match="a wait"):
        judging.check(kept=False, told="a wait")


@pytest.mark.parametrize("answers", [(False,), (True, False)])
def test_a_limit_is_not_judged_while_others_compute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answers: tuple[bool, ...]
) -> None:
    limits(monkeypatch, *answers).check(kept=False, told="a wait")
    assert "not judged" in capsys.readouterr().out
