"""What is to become of a record of a source topic by its rule, if nothing replaces or cancels it. Pure; written a second time
on purpose, from the documents."""

from __future__ import annotations

from tests.simulation.relays.facts import ATTEMPT, CANCEL, DELAY, DELIVER_AT, ID, RETRIES, Stored
from tests.simulation.relays.plan import PlannedRule

DAY_MS = 86_400_000
FARTHEST_MS = 366 * DAY_MS


def due_ms(source: Stored, rule: PlannedRule) -> int | None:
    """When it is due; None when it belongs to the dead letters at once."""
    if source.header(ID) is None and _has(source, CANCEL):
        return None
    if rule.kind == "retry":
        failed = max(int(source.header(ATTEMPT) or "0"), int(source.header(RETRIES) or "0") + 1)
        return source.record.timestamp + rule.delays_ms[failed - 1] if failed <= len(rule.delays_ms) else None
    at, delay = source.header(DELIVER_AT), source.header(DELAY)
    if at is not None:
        due = _number(at)
    elif delay is not None:
        number = _number(delay)
        due = None if number is None else source.record.timestamp + number
    else:
        due = source.record.timestamp + rule.delay_ms
    if due is None or due > source.record.timestamp + FARTHEST_MS:
        return None
    return due


def _number(text: str) -> int | None:
    """A decimal number that is not negative."""
    return int(text) if text.isascii() and text.isdecimal() else None


def is_cancellation(source: Stored) -> bool:
    return source.header(ID) is not None and _has(source, CANCEL)


def _has(source: Stored, name: str) -> bool:
    return any(each == name for each, _ in source.record.headers)
