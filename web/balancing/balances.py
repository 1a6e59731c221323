"""Balances of the cluster: plans that wait for somebody to start them, and the one that runs.

Rules: one balance runs at a time: two would move what the other has planned. It runs as the user who has started it, over
connections of its own, whether or not that user's page is open; the session does not end meanwhile for being idle. Plans are
kept for their users, the youngest PLANS of them; a plan is started once, by the user who has made it. When the session or the
process ends, a balance that runs takes back what is moving, and removes its throttles, while its login still holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from runtime.command_line.failure import Failure
from runtime.tasks import TaskScope
from tools.reassignment.execution import Execution
from web.cluster.long_work import carry_out
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from tools.balance.planning import BalancePlan
    from web.access.sessions import Session
    from web.surroundings import Surroundings

PLANS: Final = 20
NOTES: Final = 200
END_S: Final = 20.0
"""So long the end of the process waits for the end of a balance."""
ID_BYTES: Final = 12
logger = logging.getLogger(__name__)

State = Literal["running", "stopping", "done", "stopped", "failed"]


@dataclass(slots=True, eq=False)
class BalanceRun:
    """A plan that is carried out, or was. It is the report of its own work."""

    user: str
    plan: BalancePlan
    throttle_bytes_per_s: int | None
    started_ms: int
    state: State = "running"
    ended_ms: int | None = None
    failure: str | None = None
    copied_bytes: int = 0
    moving_count: int = 0
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=NOTES))
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    execution: Execution | None = None

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "stopped", "failed")

    @property
    def done_count(self) -> int:
        return 0 if self.execution is None else len(self.execution.done)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def show(self, copied_bytes: int, moving_count: int) -> None:
        self.copied_bytes, self.moving_count = copied_bytes, moving_count


class Balances:
    """`current` is the balance that runs, or the last that ran."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.current: BalanceRun | None = None
        self._surroundings = surroundings
        self._plans: OrderedDict[str, tuple[str, BalancePlan]] = OrderedDict()
        self._tasks = TaskScope("balances")
        self._task: asyncio.Task[None] | None = None

    def keep(self, user: str, plan: BalancePlan) -> str:
        """Keep a plan for its user, and return the name by which it is started."""
        name = self._surroundings.randomness.randbytes(ID_BYTES).hex()
        self._plans[name] = user, plan
        while len(self._plans) > PLANS:
            self._plans.popitem(last=False)
        return name

    def start(
        self,
        name: str,
        cluster: UserCluster,
        throttle_bytes_per_s: int | None,
        batch_size: int,
        session: Session | None = None,
    ) -> BalanceRun:
        """Begin to carry a plan out as the user of `cluster`, in a session if there is one. Raises HttpProblem where another
        runs, or there is no such plan of this user."""
        user, settings = cluster.name, cluster.settings
        if self.current is not None and not self.current.is_over:
            raise HttpProblem(
                409,
                f"a balance of {self.current.user} is running",
                code="BALANCE_RUNNING",
                next_step="wait, or stop it",
            )
        owner, plan = self._plans.get(name, (None, None))
        if plan is None or owner != user:
            raise HttpProblem(404, "there is no such plan any more", code="NO_SUCH_PLAN", next_step="plan again")
        del self._plans[name]
        run = BalanceRun(user, plan, throttle_bytes_per_s, self._surroundings.clock.wall_ms())
        run.execution = Execution(run, settings.bootstrap_servers, plan.moves, throttle_bytes_per_s, batch_size)
        self.current = run
        self._task = self._tasks.spawn(self._carry_out(run, run.execution, settings, session), name="balance")
        if session is not None:
            session.under_way[run] = self.end
        return run

    def stop(self) -> BalanceRun:
        """Ask the balance that runs to end. Raises HttpProblem where none does."""
        if self.current is None or self.current.is_over:
            raise HttpProblem(409, "no balance is running", code="NO_BALANCE")
        self.current.state = "stopping"
        self.current.stop.set()
        return self.current

    async def end(self) -> None:
        """Stop the balance that runs, if one does, and wait for its end."""
        if self.current is not None and not self.current.is_over and self._task is not None:
            self.stop()
            await asyncio.wait([self._task], timeout=END_S)

    async def close(self) -> None:
        await self.end()
        await self._tasks.close()

    async def _carry_out(
        self, run: BalanceRun, execution: Execution, settings: ClientSettings, session: Session | None
    ) -> None:
        cluster = UserCluster(settings, self._surroundings, run.user)
        try:
            is_whole = await carry_out(execution.work(), cluster, run.stop)
            run.state = "done" if is_whole else "stopped"
        except Failure as failure:
            run.state, run.failure = "failed", failure.message
        except Exception:
            logger.exception("a balance has failed")
            run.state, run.failure = "failed", "this is a fault of the server: its log tells more"
        finally:
            run.moving_count = 0
            run.ended_ms = self._surroundings.clock.wall_ms()
            if session is not None:
                session.under_way.pop(run, None)
            await cluster.close()
