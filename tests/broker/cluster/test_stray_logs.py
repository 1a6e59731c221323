"""Logs that no topic has are told at the start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from broker.cluster.stray_logs import stray_logs, warn_of_stray_logs
from metadata.store.port import ConnectionLossError, NoNodeError, StoreError, Tree


@dataclass
class Log:
    directory: str


class Topics:
    """A store that knows topics, or cannot be asked."""

    def __init__(self, answer: list[str] | StoreError) -> None:
        self._answer = answer

    async def children(self, path: str) -> list[str]:
        assert path == "/brokers/topics"
        if isinstance(self._answer, StoreError):
            raise self._answer
        return self._answer


LOGS = {("b", 1): Log("/d/b-1"), ("a", 0): Log("/d/a-0"), ("a", 1): Log("/d/a-1")}


def told(answer: list[str] | StoreError, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    store: Tree = Topics(answer)  # type: ignore[assignment]
    found = asyncio.run(warn_of_stray_logs(store, LOGS))
    assert found == bool(caplog.records)
    return [record.getMessage() for record in caplog.records]


def test_strays_in_order() -> None:
    assert stray_logs(LOGS, {"b"}) == [("a", 0), ("a", 1)]
    assert stray_logs(LOGS, {"a", "b", "c"}) == []


def test_one_warning_for_all(caplog: pytest.LogCaptureFixture) -> None:
    assert told(["a", "b"], caplog) == []
    (line,) = told(["b"], caplog)
    assert "logs=2 example=/d/a-0" in line
    assert "zookeeper.connect" in line
    assert "barnabas-store.sqlite" in line
    (line,) = told(NoNodeError("/brokers/topics"), caplog)
    assert "logs=3" in line


def test_a_store_that_cannot_be_asked_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert told(ConnectionLossError("/brokers/topics"), caplog) == []
