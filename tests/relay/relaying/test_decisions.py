"""What a rule means for a record, by a table."""

from __future__ import annotations

import pytest

from client.letters.headers import Letter
from relay.relaying.decisions import (
    DAY_MS,
    HOUR_MS,
    Cancellation,
    Decision,
    DelayLimits,
    Due,
    Refused,
    decide,
    tier_for,
)
from relay.rules.rule import Rule, RuleKind
from relay.waiting.entries import DAY, HOUR, MONTH, SOURCE, YEAR

NOW_MS = 1_000_000_000
DELAY = Rule("in", RuleKind.DELAY, "out", delay_ms=500)
RETRY = Rule("in", RuleKind.RETRY, "out", delays_ms=(10, 100))
LIMITS = DelayLimits()


@pytest.mark.parametrize(
    ("rule", "letter", "timestamp_ms", "expected"),
    [
        (DELAY, Letter(), NOW_MS, Due(NOW_MS + 500)),
        (DELAY, Letter(), -1, Due(NOW_MS + 500)),
        (DELAY, Letter(delay_ms=7), NOW_MS - 5, Due(NOW_MS + 2)),
        (DELAY, Letter(delay_ms=7, deliver_at_ms=3), NOW_MS, Due(3)),
        (DELAY, Letter(deliver_at_ms=NOW_MS + LIMITS.max_ms), NOW_MS, Due(NOW_MS + LIMITS.max_ms)),
        (
            DELAY,
            Letter(deliver_at_ms=NOW_MS + LIMITS.max_ms + 1),
            NOW_MS,
            Refused("due more than 31622400000 ms ahead"),
        ),
        (DELAY, Letter(), (1 << 63) - 1, Refused("due more than 31622400000 ms ahead")),
        (DELAY, Letter(problem="rubbish"), NOW_MS, Refused("rubbish")),
        (DELAY, Letter(message_id=b"a", is_cancellation=True), NOW_MS, Cancellation()),
        (DELAY, Letter(expires_at_ms=NOW_MS), NOW_MS, Refused("expired")),
        (DELAY, Letter(expires_at_ms=NOW_MS + 1), NOW_MS, Due(NOW_MS + 500)),
        (RETRY, Letter(), NOW_MS, Due(NOW_MS + 10, 1)),
        (RETRY, Letter(attempt=1), NOW_MS, Due(NOW_MS + 10, 1)),
        (RETRY, Letter(attempt=2), NOW_MS, Due(NOW_MS + 100, 2)),
        (RETRY, Letter(attempt=1, retries=1), NOW_MS, Due(NOW_MS + 100, 2)),
        (RETRY, Letter(attempt=3), NOW_MS, Refused("failed 3 times", 3)),
        (RETRY, Letter(retries=2, reason="no such order"), NOW_MS, Refused("no such order", 3)),
        (RETRY, Letter(deliver_at_ms=1, delay_ms=1), NOW_MS, Due(NOW_MS + 10, 1)),
    ],
)
def test_what_becomes_of_a_record(rule: Rule, letter: Letter, timestamp_ms: int, expected: Decision) -> None:
    assert decide(rule, letter, timestamp_ms, NOW_MS, LIMITS) == expected


@pytest.mark.parametrize(
    ("ahead_ms", "tier"),
    [
        (1, SOURCE), (60_000, SOURCE), (60_001, HOUR), (HOUR_MS, HOUR), (HOUR_MS + 1, DAY), (DAY_MS, DAY),
        (DAY_MS + 1, MONTH), (31 * DAY_MS, MONTH), (31 * DAY_MS + 1, YEAR), (366 * DAY_MS, YEAR),
    ],
)  # fmt: skip
def test_where_a_record_waits(ahead_ms: int, tier: int) -> None:
    assert tier_for(NOW_MS + ahead_ms, NOW_MS, LIMITS) == tier
