"""What `barnabas cluster health` prints: one screen, or one JSON document. Pure.

Rules: on the screen, problems of one cause are one, and of many that one check has found the first few are shown, with the
number of the others, unless all are asked for. A document has each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from runtime.texts import count_text, time_text, visible
from tools.health.causes import by_cause
from tools.health.checks import Finding
from tools.health.view import ClusterView, Severity, Since

SHOWN_OF_A_CHECK = 5


def is_healthy(found: Sequence[Finding]) -> bool:
    """Notices are no problem yet."""
    return all(each.problem.severity is Severity.NOTICE for each in found)


def document(view: ClusterView, found: Sequence[Finding]) -> dict[str, Any]:
    return {
        "status": "healthy" if is_healthy(found) else "unhealthy",
        "cluster_id": view.cluster_id,
        "time": time_text(view.now_ms),
        "brokers": sorted(view.brokers),
        "controller": view.controller,
        "partitions": len(view.partitions),
        "problems": [
            {
                "check": each.check,
                "severity": each.problem.severity.word,
                "subject": each.problem.subject,
                "cause": each.problem.cause,
                "since": None if each.problem.since.at_ms is None else time_text(each.problem.since.at_ms),
                "since_note": each.problem.since.note,
                "next": each.problem.next_step,
            }
            for each in found
        ],
        "not_seen": list(view.unseen),
    }


def _brokers(view: ClusterView) -> str:
    ids = ", ".join(map(str, sorted(view.brokers)))
    return f"{count_text(len(view.brokers), 'broker')} ({ids})" if ids else "no brokers"


def lines(
    view: ClusterView, found: Sequence[Finding], *, shows_all: bool = False, shows_time: bool = False
) -> Iterator[str]:
    """With `shows_time` the first line begins with the time of the view."""
    found = found if shows_all else by_cause(found)
    counts = Counter(each.problem.severity for each in found)
    told = "healthy" if is_healthy(found) else "unhealthy"
    if view.unseen and is_healthy(found):
        told += " as far as it was seen"
    for severity in Severity:
        if counts[severity]:
            told += f", {count_text(counts[severity], severity.word)}"
    yield (
        f"{time_text(view.now_ms) + ' ' if shows_time else ''}cluster {view.cluster_id}: {told}; {_brokers(view)}; controller "
        f"{view.controller if view.controller is not None else 'none'}; {count_text(len(view.partitions), 'partition')}"
    )
    by_check: dict[tuple[str, Severity], list[Finding]] = defaultdict(list)
    for each in found:
        by_check[each.check, each.problem.severity].append(each)
    for (check, severity), those in by_check.items():
        shown = those if shows_all else those[:SHOWN_OF_A_CHECK]
        for each in shown:
            problem = each.problem
            yield visible(f"{severity.word}: {problem.subject}: {problem.cause}")
            yield f"  since: {_since_text(problem.since)}"
            yield visible(f"  next: {problem.next_step}")
        if len(shown) < len(those):
            yield f"{severity.word}: {check}: {len(those) - len(shown)} more (--all shows them)"
    for line in view.unseen:
        yield visible(f"not seen: {line}")


def _since_text(since: Since) -> str:
    if since.at_ms is None:
        return f"unknown ({since.note})"
    return f"{time_text(since.at_ms)} ({since.note})"
