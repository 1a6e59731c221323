"""Answers that are kept for some seconds."""

from __future__ import annotations

import asyncio

import pytest

from protocol.errors import ErrorCode, KafkaError
from tests.doubles.clock import ManualClock
from web.cluster.recent import LIMIT, RecentAnswers


class Asked:
    def __init__(self) -> None:
        self.count = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        self.count += 1
        await self.go.wait()
        return self.count


async def test_who_asks_meanwhile_gets_the_same_answer_and_later_a_new_one() -> None:
    clock, asked = ManualClock(), Asked()
    answers = RecentAnswers(clock)
    both = [asyncio.ensure_future(answers.get("k", 1_000, asked)) for _ in range(2)]
    asked.go.set()
    assert await asyncio.gather(*both) == [1, 1]
    clock.now_ms += 999
    assert await answers.get("k", 1_000, asked) == 1
    clock.now_ms += 1
    assert await answers.get("k", 1_000, asked) == 2
    await answers.close()


async def test_a_failure_is_told_to_those_who_wait_and_kept_for_nobody() -> None:
    answers = RecentAnswers(ManualClock())

    async def fails() -> int:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    async def succeeds() -> int:
        return 1

    for outcome in await asyncio.gather(*(answers.get("k", 1_000, fails) for _ in range(2)), return_exceptions=True):
        assert isinstance(outcome, KafkaError)
    assert await answers.get("k", 1_000, succeeds) == 1
    await answers.close()


async def test_who_goes_away_does_not_end_the_question() -> None:
    answers, asked = RecentAnswers(ManualClock()), Asked()
    first = asyncio.ensure_future(answers.get("k", 1_000, asked))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    asked.go.set()
    assert await answers.get("k", 1_000, asked) == 1
    await answers.close()


async def test_what_is_kept_is_bounded() -> None:
    answers, asked = RecentAnswers(ManualClock()), Asked()
    asked.go.set()
    for key in range(LIMIT + 1):
        await answers.get(key, 1_000, asked)
    assert await answers.get(LIMIT, 1_000, asked) == LIMIT + 1
    assert await answers.get(0, 1_000, asked) == LIMIT + 2
    await answers.close()


async def test_after_a_change_nothing_from_before_it_is_given() -> None:
    asked = Asked()
    answers = RecentAnswers(ManualClock())
    before = asyncio.ensure_future(answers.get("k", 1_000, asked))
    await asyncio.sleep(0)
    answers.forget()
    after = asyncio.ensure_future(answers.get("k", 1_000, asked))
    await asyncio.sleep(0)
    asked.go.set()
    await asyncio.gather(before, after)
    assert asked.count == 2
    await answers.close()
