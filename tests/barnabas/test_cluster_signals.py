"""What ends `python -m barnabas.cluster` ends what it has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cluster import Cluster, main

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in SIGNALS]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_the_cluster_in_order(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[Path] = []
    monkeypatch.setattr(Cluster, "start", lambda _: os.kill(os.getpid(), number))
    monkeypatch.setattr(Cluster, "keep_running", lambda _: pytest.fail("it goes on"))
    monkeypatch.setattr(Cluster, "stop", lambda cluster: stopped.append(cluster.folder))
    assert main(["--folder", str(tmp_path)]) == 0
    assert stopped == [tmp_path]


def test_a_second_wish_kills_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Cluster) -> None:
        raise KeyboardInterrupt

    killed: list[Path] = []
    monkeypatch.setattr(Cluster, "start", interrupt)
    monkeypatch.setattr(Cluster, "stop", interrupt)
    monkeypatch.setattr(Cluster, "kill", lambda cluster: killed.append(cluster.folder))
    assert main(["--folder", str(tmp_path)]) == 0
    assert killed == [tmp_path]


def test_the_end_of_a_terminal_is_told_twice_and_hurries_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "start", lambda _: os.kill(os.getpid(), signal.SIGHUP))
    monkeypatch.setattr(Cluster, "stop", lambda _: os.kill(os.getpid(), signal.SIGHUP))
    monkeypatch.setattr(Cluster, "kill", lambda _: pytest.fail("in order, please"))
    assert main(["--folder", str(tmp_path)]) == 0
