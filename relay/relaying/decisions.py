"""What a rule means for a record: bring it to the target at once, let it wait, cancel one that waits, or put it aside. Pure.

The time of a delay is the first of these that there is: header `barnabas-deliver-at`, header `barnabas-delay-ms` after the
record's timestamp, the rule's delay after the record's timestamp. A rule for retries has a delay for each number of failed
attempts; a record with more failed attempts than delays is a dead letter.

Rules: pure; a decision depends on the record, the rule and the time alone. Records that are due within `near_ms` wait in their
source topic; others are copied into the bucket of the smallest tier that covers the time until then.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from relay.rules.rule import RuleKind
from relay.waiting.entries import HOUR, SOURCE

if TYPE_CHECKING:
    from client.letters.headers import Letter
    from relay.rules.rule import Rule

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
SPANS_MS: Final = (HOUR_MS, DAY_MS, 31 * DAY_MS)
"""How far ahead records are due at most in the tiers from HOUR on; those of the last tier may be due later."""
EXPIRED: Final = "expired"


@dataclass(frozen=True, slots=True)
class DelayLimits:
    """`near_ms`: up to this long records wait in their source topic. `max_ms`: no delay may be longer."""

    near_ms: int = MINUTE_MS
    max_ms: int = 366 * DAY_MS


class Due(NamedTuple):
    """The record is to be delivered at `due_ms`, or now if that is past. `attempt` is the number of failed attempts of a
    retry, None for a delay."""

    due_ms: int
    attempt: int | None = None


class Cancellation(NamedTuple):
    """The waiting record with the same id is not to be delivered."""


class Refused(NamedTuple):
    """The record is a dead letter. `attempt` is the number of failed attempts of a retry."""

    reason: str
    attempt: int | None = None


Decision = Due | Cancellation | Refused


def decide(rule: Rule, letter: Letter, timestamp_ms: int, now_ms: int, limits: DelayLimits) -> Decision:
    """Return what becomes of a record with these headers and this timestamp; a timestamp below zero is none."""
    if letter.problem is not None:
        return Refused(letter.problem)
    if letter.is_cancellation:
        return Cancellation() if letter.message_id else Refused("a cancellation needs the header barnabas-id")
    if letter.expires_at_ms is not None and letter.expires_at_ms <= now_ms:
        return Refused(EXPIRED)
    sent_ms = timestamp_ms if timestamp_ms >= 0 else now_ms
    if rule.kind is RuleKind.RETRY:
        return _retry(rule, letter, sent_ms, now_ms, limits)
    if letter.deliver_at_ms is not None:
        due_ms = letter.deliver_at_ms
    else:
        due_ms = sent_ms + (rule.delay_ms if letter.delay_ms is None else letter.delay_ms)
    return _bounded(Due(due_ms), now_ms, limits)


def tier_for(due_ms: int, now_ms: int, limits: DelayLimits) -> int:
    """Return where a record waits that is due in the future: SOURCE or the number of a bucket."""
    ahead_ms = due_ms - now_ms
    if ahead_ms <= limits.near_ms:
        return SOURCE
    return HOUR + bisect_left(SPANS_MS, ahead_ms)


def _retry(rule: Rule, letter: Letter, sent_ms: int, now_ms: int, limits: DelayLimits) -> Decision:
    failed = max(letter.attempt, letter.retries + 1)
    if failed > len(rule.delays_ms):
        return Refused(letter.reason or f"failed {failed} times", failed)
    return _bounded(Due(sent_ms + rule.delays_ms[failed - 1], failed), now_ms, limits)


def _bounded(due: Due, now_ms: int, limits: DelayLimits) -> Decision:
    if due.due_ms - now_ms > limits.max_ms:
        return Refused(f"due more than {limits.max_ms} ms ahead")
    return due
