"""Problems of one cause as one problem: fifty partitions whose broker is gone are one line. Pure.

Rules: those of one check are one when they are as severe and share their cause and their next step, as the check says it for
several (`Problem.shared`). The one has the earliest start that is known, and stands where the first of them stood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runtime.texts import count_text
from tools.health.checks import Finding
from tools.health.view import Problem, Severity, Since

NAMED = 3
_Cause = tuple[str, Severity, object]


def by_cause(found: Sequence[Finding]) -> list[Finding]:
    groups: dict[_Cause, list[Finding]] = {}
    for number, each in enumerate(found):
        shared: object = number if each.problem.shared is None else each.problem.shared
        groups.setdefault((each.check, each.problem.severity, shared), []).append(each)
    return [those[0] if len(those) == 1 else _one(those) for those in groups.values()]


def _one(found: Sequence[Finding]) -> Finding:
    problems = [each.problem for each in found]
    first = problems[0]
    assert first.shared is not None
    subject = _subject([problem.subject for problem in problems])
    since = _earliest([problem.since for problem in problems])
    return replace(
        found[0], problem=Problem(first.severity, subject, first.shared.cause, first.shared.next_step, since)
    )


def _subject(subjects: Sequence[str]) -> str:
    """Return "4 partitions (a-0, a-1, a-2 ...)" of "partition a-0" and others."""
    kind = subjects[0].partition(" ")[0]
    names = [subject.partition(" ")[2] for subject in subjects]
    separator = "; " if any(", " in name for name in names) else ", "
    return f"{count_text(len(names), kind)} ({separator.join(names[:NAMED])}{' ...' if len(names) > NAMED else ''})"


def _earliest(starts: Sequence[Since]) -> Since:
    known = [since for since in starts if since.at_ms is not None]
    if not known:
        return starts[0]
    first = min(known, key=lambda since: since.at_ms or 0)
    return first if len(set(starts)) == 1 else replace(first, note=f"the first of them; {first.note}")
