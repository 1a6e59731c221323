"""Never early: what is sent to a target is due by the clock of the machine that sends it, in transactions that are aborted,
too; its timestamp is the time of delivery, and it has not expired by then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.simulation.relays.expected import due_ms
from tests.simulation.relays.facts import EXPIRES_AT, Finals, Known, Send, Stored
from tests.simulation.relays.plan import PlannedRule


def early(finals: Finals, known: Known, rules: Mapping[str, PlannedRule]) -> Iterator[str]:
    for (topic, _), records in finals.sources.items():
        rule = rules[topic]
        for source in records:
            due = due_ms(source, rule)
            if due is None:
                continue
            for send in known.sends.get(source.value, ()):
                if send.topic == rule.target:
                    yield from _judged(source, due, send)


def _judged(source: Stored, due: int, send: Send) -> Iterator[str]:
    at = f"by {send.life.name} at {send.at_s:.3f} s"
    if send.wall_ms < due:
        yield f"early: {source} was sent {due - send.wall_ms} ms early {at}"
    if not due <= send.timestamp_ms <= send.wall_ms:
        yield f"early: {source} has the time {send.timestamp_ms}, it was due at {due} and sent at {send.wall_ms} {at}"
    expires_at = source.header(EXPIRES_AT)
    if expires_at is not None and int(expires_at) <= send.timestamp_ms:
        yield f"expired: {source} was sent {at}"
