from __future__ import annotations

import asyncio
import logging

import pytest

from runtime.tasks import TaskScope


def test_a_failure_is_logged_once_and_handed_on(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[tuple[str, BaseException]] = []

    async def fail() -> None:
        raise ValueError("boom")

    async def main() -> None:
        scope = TaskScope("cleaner", lambda name, error: failures.append((name, error)))
        task = scope.spawn(fail(), name="segment 7")
        await asyncio.wait([task])
        await scope.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert [name for name, _ in failures] == ["cleaner: segment 7"]
    assert str(failures[0][1]) == "boom"
    assert [record.message for record in caplog.records] == ["task failed: task=cleaner: segment 7"]
    assert caplog.records[0].exc_info is not None


def test_close_cancels_and_waits_for_the_end(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    async def main() -> None:
        async with TaskScope("owner") as scope:
            scope.spawn(work(), name="a")
            scope.spawn(work(), name="b")
            await asyncio.sleep(0)
        steps.append("closed")
        assert len(scope) == 0

    asyncio.run(main())
    assert steps == ["cleaned up", "cleaned up", "closed"]
    assert caplog.records == []  # cancellation is no failure


async def test_a_closed_scope_takes_no_task() -> None:
    async def work() -> None: ...

    scope = TaskScope("owner")
    await scope.close()
    with pytest.raises(RuntimeError, match="closed"):
        scope.spawn(work(), name="late")


def test_a_task_of_the_scope_may_close_it() -> None:
    async def main() -> str:
        scope = TaskScope("owner")
        scope.spawn(asyncio.Event().wait(), name="other")

        async def closer() -> str:
            await scope.close()
            return "closed"

        return await scope.spawn(closer(), name="closer")

    assert asyncio.run(main()) == "closed"
