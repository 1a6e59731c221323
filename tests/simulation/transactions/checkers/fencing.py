"""Zombies: what an instance asks for after a newer one of its transactional id has begun is refused; and nobody is fenced
without a reason (a newer instance, a timeout)."""

from __future__ import annotations

from tests.simulation.checkers.logs import Report


class FencingChecker:
    """Instances of a transactional id are numbered in the order in which they began to ask for their epoch."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._begun: dict[str, int] = {}
        self._initialized: dict[str, int] = {}
        self._owners: dict[tuple[int, int], tuple[str, int]] = {}

    def begins(self, transactional_id: str) -> int:
        """A new instance asks for its epoch: its number."""
        self._begun[transactional_id] = number = self._begun.get(transactional_id, 0) + 1
        return number

    def newest(self, transactional_id: str) -> int:
        """The newest instance that has got its epoch."""
        return self._initialized.get(transactional_id, 0)

    def is_followed(self, transactional_id: str, instance: int) -> bool:
        """Whether a newer instance has asked for its epoch, which ends what this one has open."""
        return self._begun[transactional_id] > instance

    def initialized(self, transactional_id: str, instance: int, producer_id: int, producer_epoch: int) -> None:
        """`instance` has got its epoch."""
        self.raised(transactional_id, instance, producer_id, producer_epoch)
        self._initialized[transactional_id] = max(self.newest(transactional_id), instance)

    def raised(self, transactional_id: str, instance: int, producer_id: int, producer_epoch: int) -> None:
        """`instance` has another epoch: nobody else has ever had it."""
        owner = (transactional_id, instance)
        if self._owners.setdefault((producer_id, producer_epoch), owner) != owner:
            self._report(f"{owner} got the producer epoch of {self._owners[producer_id, producer_epoch]}")

    def accepted(self, transactional_id: str, instance: int, what: str, newest_when_sent: int) -> None:
        """The coordinator did what `instance` has asked for, once `newest_when_sent` had its epoch."""
        if instance < newest_when_sent:
            self._report(
                f"zombie: {what} of {transactional_id} instance {instance} was accepted after {newest_when_sent}"
            )

    def fenced(self, transactional_id: str, instance: int, what: str, *, is_excused: bool) -> None:
        """The instance was answered that it is not the newest. `is_excused`: something else than a newer one explains it."""
        if instance == self._begun[transactional_id] and not is_excused:
            self._report(f"{transactional_id} instance {instance}: {what} was fenced without a reason")
