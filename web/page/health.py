"""What is wrong with the cluster, as the page shows it: each problem with its cause, since when, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from client.errors import LoginRefused
from tools.failures import Unreachable
from tools.health.causes import by_cause
from tools.health.screen import is_healthy
from web.errors import HttpProblem
from web.page.routing import page_router
from web.requests import Cluster, Parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.health.checks import Finding
    from web.checking.checkups import Checkup

router = page_router("Health")


class HealthProblem(BaseModel):
    """`severity` is error, warning or notice; a notice is no problem yet. `since_ms` is null where nobody knows it, and
    `since_note` says who does, or why not."""

    check: str
    severity: str
    subject: str
    cause: str
    since_ms: int | None
    since_note: str
    next: str


class Health(BaseModel):
    """`problems` are those of one cause together, and `each` one by one. `not_seen` tells what could not be looked at."""

    healthy: bool
    cluster_id: str | None
    checked_ms: int
    brokers: list[int]
    controller: int | None
    partitions_count: int
    problems: list[HealthProblem]
    each: list[HealthProblem]
    not_seen: list[str]


@router.get("/health")
async def health(cluster: Cluster, parts: Parts) -> Health:
    """Check the cluster. A check takes some seconds where something might stand still."""
    try:
        return health_of(await parts.checkups.check(cluster))
    except Unreachable:
        raise HttpProblem(503, "no broker answers", code="UNREACHABLE", next_step="start a broker") from None
    except LoginRefused as error:
        raise HttpProblem(401, f"the cluster does not accept this login: {error}", code="LOGIN_REFUSED") from error


def health_of(checkup: Checkup) -> Health:
    """Return a check as the page shows it."""
    view = checkup.view
    return Health(
        healthy=is_healthy(checkup.found),
        cluster_id=view.cluster_id,
        checked_ms=view.now_ms,
        brokers=sorted(view.brokers),
        controller=view.controller,
        partitions_count=len(view.partitions),
        problems=_rows(by_cause(checkup.found)),
        each=_rows(checkup.found),
        not_seen=list(view.unseen),
    )


def _rows(found: Sequence[Finding]) -> list[HealthProblem]:
    return [
        HealthProblem(
            check=each.check,
            severity=each.problem.severity.word,
            subject=each.problem.subject,
            cause=each.problem.cause,
            since_ms=each.problem.since.at_ms,
            since_note=each.problem.since.note,
            next=each.problem.next_step,
        )
        for each in found
    ]
