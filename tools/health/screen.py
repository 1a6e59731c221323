"""What `barnabas cluster health` prints: one screen, or one JSON document. Pure.

Rules: of many problems that one check has found the first few are shown, with the number of the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tools.health.checks import Finding
from tools.health.view import ClusterView, Severity, Since
from tools.parsing import time_text

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
    ids, count = ", ".join(map(str, sorted(view.brokers))), len(view.brokers)
    return f"{count} broker{'' if count == 1 else 's'} ({ids})" if ids else "no brokers"


def lines(view: ClusterView, found: Sequence[Finding], *, shows_all: bool = False) -> Iterator[str]:
    counts = Counter(each.problem.severity for each in found)
    told = "healthy" if is_healthy(found) else "unhealthy"
    if view.unseen and is_healthy(found):
        told += " as far as it was seen"
    for severity in Severity:
        if counts[severity]:
            told += f", {counts[severity]} {severity.word}{'' if counts[severity] == 1 else 's'}"
    yield (
        f"cluster {view.cluster_id}: {told}; {_brokers(view)}; controller "
        f"{view.controller if view.controller is not None else 'none'}; {len(view.partitions)} partitions"
    )
    by_check: dict[tuple[str, Severity], list[Finding]] = defaultdict(list)
    for each in found:
        by_check[each.check, each.problem.severity].append(each)
    for (check, severity), those in by_check.items():
        shown = those if shows_all else those[:SHOWN_OF_A_CHECK]
        for each in shown:
            problem = each.problem
            yield _printable(f"{severity.word}: {problem.subject}: {problem.cause}")
            yield f"  since: {_since_text(problem.since)}"
            yield _printable(f"  next: {problem.next_step}")
        if len(shown) < len(those):
            yield f"{severity.word}: {check}: {len(those) - len(shown)} more (--all shows them)"
    for line in view.unseen:
        yield _printable(f"not seen: {line}")


def _printable(text: str) -> str:
    """Names of groups may hold what moves the cursor, or ends a line."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _since_text(since: Since) -> str:
    if since.at_ms is None:
        return f"unknown ({since.note})"
    return f"{time_text(since.at_ms)} ({since.note})"
