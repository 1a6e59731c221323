"""Carries long work out for a command: a Ctrl-C asks for the end, and progress is a line of the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from runtime.command_line.output import Output
from runtime.command_line.progress import Progress
from runtime.texts import count_text, size_text
from tools.reassignment.interruption import Interruption
from tools.reassignment.long_work import Carry, Outcomes, Wait, Work

if TYPE_CHECKING:
    from runtime.clock import Clock
    from tools.cluster import Cluster

T = TypeVar("T")


class TerminalReport:
    """Of moves that copy `total_bytes` together."""

    def __init__(self, total_bytes: int, clock: Clock) -> None:
        self.progress = Progress("copied", total_bytes, clock, size_text)

    def note(self, text: str) -> None:
        Output.note(text)

    def show(self, copied_bytes: int, moving_count: int) -> None:
        self.progress.show(copied_bytes, f"{count_text(moving_count, 'partition', 'is', 'are')} moving")


def carry_out(work: Work[T], cluster: Cluster) -> T:
    """Return the result of work. Raises what it raises."""
    return _carried_out(work, cluster, None)


def carry_out_until_interrupted(work: Work[T], cluster: Cluster) -> T:
    """Return the result of work, which a Ctrl-C asks to end. Raises what it raises."""
    with Interruption(_tell_interruption) as interruption:
        return _carried_out(work, cluster, interruption)


def _carried_out(work: Work[T], cluster: Cluster, interruption: Interruption | None) -> T:
    outcomes = Outcomes()
    while True:
        try:
            step = outcomes.next_of(work)
        except StopIteration as end:
            value: T = end.value
            return value
        if isinstance(step, Carry):
            try:
                outcomes.value = cluster.run(step.steps)
            except Exception as error:  # noqa: BLE001  it is the work's to judge
                outcomes.error = error
        else:
            outcomes.value = _waited(step, interruption)


def _waited(step: Wait, interruption: Interruption | None) -> bool:
    if interruption is not None and step.is_stoppable:
        return interruption.wait(step.seconds)
    time.sleep(step.seconds)
    return False


def _tell_interruption() -> None:
    Output.note("interrupted: what is being moved is taken back, and throttles are removed")
