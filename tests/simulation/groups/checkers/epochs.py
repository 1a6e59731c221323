"""Epochs: a member's epoch never falls, also when it joins again; and what is committed with an epoch of a membership that has
ended is refused."""

from __future__ import annotations

from tests.simulation.checkers.logs import Report


class EpochChecker:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._members: dict[tuple[str, str], int] = {}
        self._over: dict[tuple[str, str], int] = {}
        """Of each member: the last epoch of a membership that has ended."""
        self.forgotten_count = 0

    def answered(self, group: str, member: str, epoch: int) -> None:
        """The coordinator has answered a heartbeat with a member's epoch."""
        known = self._members.get((group, member), 0)
        if epoch <= 0:
            self._report(f"{group}: {member} has epoch {epoch}")
        elif epoch < known:
            self._report(f"{group}: the epoch of {member} fell from {known} to {epoch}")
        self._members[group, member] = max(epoch, known)

    def joining(self, group: str, member: str, *, may_be_new: bool = False) -> None:
        """The member asks to be one again. Before a new target was computed it gets the epoch of the target, as before.
        `may_be_new`: the group may have been one of the other kind, whose epochs begin anew."""
        if may_be_new:
            self._members.pop((group, member), None)
        last = self._members.get((group, member), 0)
        self._over[group, member] = min(self._over.get((group, member), 0), last - 1)

    def ended(self, group: str, member: str) -> None:
        """The coordinator has accepted that the member leaves, or has said that it does not know it."""
        self._over[group, member] = self._members.get((group, member), 0)

    def leaving_for_a_while(self, group: str, member: str) -> None:
        """A static member leaves, and is to come back: what it owns counts as owned since epoch 0 then, as in Kafka 4.3, so
        that its commits are taken with any epoch that it ever had."""
        self._over.pop((group, member), None)

    def is_over(self, group: str, member: str, epoch: int) -> bool:
        """Whether a commit with this epoch, sent now, has to be refused. An epoch of a membership that goes on counts for what
        the member has owned since (KIP-1251)."""
        return epoch <= self._over.get((group, member), 0)

    def late_commit_accepted(self, group: str, member: str, epoch: int, forgotten_count: int) -> None:
        """One that was over when it was sent; `forgotten_count` is from then."""
        if forgotten_count == self.forgotten_count:
            self._report(f"{group}: a commit of {member} with epoch {epoch} was accepted, which was over")

    def forget(self) -> None:
        """A coordinator may have lost what it knew: epochs begin anew."""
        self._members.clear()
        self._over.clear()
        self.forgotten_count += 1
