"""A balance of the cluster, as the page plans it, starts it, and shows how far it has come.

Rules: who plans sees what each broker has and would have before anything moves. `web.balancing` keeps the rules of what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from tools.balance.goals import THRESHOLD_PERCENT
from tools.balance.planning import layout_of, plan_balance
from tools.balance.survey import survey
from web.balancing.balances import State
from web.cluster.long_work import carry_out
from web.errors import HttpProblem
from web.page.routing import RequestBody, page_router
from web.requests import WRITING, Asking, Cluster, Parts

if TYPE_CHECKING:
    from tools.balance.planning import BalancePlan
    from web.balancing.balances import BalanceRun

router = page_router("Balance")
SAMPLE_S = 2.0
SAMPLE_MOST_S = 60.0
BATCH = 20


class BrokerAmounts(BaseModel):
    replicas: int
    leaders: int
    bytes: int
    records_per_s: float


class BrokerChange(BaseModel):
    broker: int
    rack: str | None
    is_there: bool
    before: BrokerAmounts
    after: BrokerAmounts


class BalanceMove(BaseModel):
    topic: str
    partition: int
    before: list[int]
    after: list[int]
    copied_bytes: int


class PlanOptions(RequestBody):
    """`topics` may be moved, all when there are none (`orders-*` is each that begins so). Replicas leave the brokers of
    `drain`, and those of `exclude` stay as they are. Bytes and rates that differ less than `threshold_percent` from the mean
    are even."""

    topics: list[str] = Field(default_factory=list)
    drain: list[int] = Field(default_factory=list)
    exclude: list[int] = Field(default_factory=list)
    threshold_percent: int = Field(THRESHOLD_PERCENT, ge=1, le=100)
    sample_s: float = Field(SAMPLE_S, ge=0, le=SAMPLE_MOST_S)


class PlanAnswer(BaseModel):
    """`plan_id` starts it. `notes` tell what stays as it is, and why."""

    plan_id: str
    brokers: list[BrokerChange]
    moves: list[BalanceMove]
    copied_bytes: int
    notes: list[str]


class StartRequest(RequestBody):
    plan_id: str
    throttle_bytes_per_s: int | None = Field(None, ge=1)
    batch_size: int = Field(BATCH, ge=1)


class RunAnswer(BaseModel):
    """The balance that runs, or the last that ran; `state` is null before the first."""

    state: State | None
    user: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    throttle_bytes_per_s: int | None = None
    moves_count: int = 0
    done_count: int = 0
    moving_count: int = 0
    copied_bytes: int = 0
    total_bytes: int = 0
    failure: str | None = None
    notes: list[str] = []


@router.post("/balance/plan")
async def plan(cluster: Cluster, parts: Parts, body: PlanOptions) -> PlanAnswer:
    """Look at the cluster for some seconds, and plan how to even it out. Nothing is changed."""
    drained, kept = frozenset(body.drain), frozenset(body.exclude)
    if drained & kept:
        raise HttpProblem(422, f"broker {min(drained & kept)} cannot be both drained and excluded", code="INVALID")
    seen = await carry_out(survey(body.topics, body.sample_s, parts.surroundings.clock), cluster)
    found = await cluster.blocking(lambda _: plan_balance(seen, layout_of(seen, drained, kept), body.threshold_percent))
    return _plan_answer(parts.balances.keep(cluster.name, found), found)


@router.post("/balance/start", dependencies=[WRITING])
async def start(cluster: Cluster, parts: Parts, asking: Asking, body: StartRequest) -> RunAnswer:
    """Begin to carry a plan out."""
    return _run_answer(
        parts.balances.start(body.plan_id, cluster, body.throttle_bytes_per_s, body.batch_size, asking.session)
    )


@router.post("/balance/stop", dependencies=[WRITING])
async def stop(cluster: Cluster, parts: Parts) -> RunAnswer:
    """Ask the balance that runs to end: what is being moved is taken back, and throttles are removed. The user who has started
    it may do that, and where nobody logs in, everybody."""
    current = parts.balances.current
    if current is not None and not current.is_over and current.user != cluster.name:
        raise HttpProblem(403, f"{current.user} has started this balance, and may stop it", code="NOT_YOURS")
    return _run_answer(parts.balances.stop())


@router.get("/balance")
async def show(cluster: Cluster, parts: Parts) -> RunAnswer:
    """Tell how far the balance has come."""
    del cluster  # whoever asks is known
    current = parts.balances.current
    return RunAnswer(state=None) if current is None else _run_answer(current)


def _plan_answer(name: str, found: BalancePlan) -> PlanAnswer:
    document = found.document()
    return PlanAnswer(
        plan_id=name,
        brokers=[BrokerChange(**row) for row in document["brokers"]],
        moves=[
            BalanceMove(
                topic=move.key[0],
                partition=move.key[1],
                before=list(move.before),
                after=list(move.after),
                copied_bytes=move.copied_bytes,
            )
            for move in found.moves
        ],
        copied_bytes=found.copied_bytes,
        notes=found.notes(),
    )


def _run_answer(run: BalanceRun) -> RunAnswer:
    return RunAnswer(
        state=run.state,
        user=run.user,
        started_ms=run.started_ms,
        ended_ms=run.ended_ms,
        throttle_bytes_per_s=run.throttle_bytes_per_s,
        moves_count=len(run.plan.moves),
        done_count=run.done_count,
        moving_count=run.moving_count,
        copied_bytes=run.copied_bytes,
        total_bytes=run.plan.copied_bytes,
        failure=run.failure,
        notes=list(run.notes),
    )
