"""All mutants, and how they are hunted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.history import run
from tests.simulation.mutants import Mutant
from tests.simulation.mutants.serving import SERVING
from tests.simulation.mutants.storage import STORAGE

ALL: tuple[Mutant, ...] = (*STORAGE, *SERVING)


@dataclass(frozen=True, slots=True)
class Hunt:
    """How a mutant fared. `violation` is None when it lived."""

    mutant: Mutant
    seeds: int
    violation: str | None


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Hunt:
    """Run histories until one breaks a promise."""
    count = 0
    with mutant.planted():
        for count, seed in enumerate(seeds, 1):
            outcome = run(seed)
            if outcome.violation is not None:
                return Hunt(mutant, count, outcome.violation)
    return Hunt(mutant, count, None)
