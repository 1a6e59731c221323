"""All mutants, and how they are hunted: those of replication in clusters, those that take a crash at the wrong moment in
the storage engine alone, those of ranges of files with one log and its readers, those of transactions and of producers in
histories of transactions, some of them only where the end of each transaction raises the epoch, those of the store in
histories of a store server, those of consumer groups in histories of groups, those of share groups in theirs, those of the
relay in histories of the relay, the others with one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.simulation import history
from tests.simulation.cluster import history as cluster_history
from tests.simulation.groups import history as groups_history
from tests.simulation.mutants import Mutant
from tests.simulation.mutants.clients import MEMBERS, PRODUCERS
from tests.simulation.mutants.crashes import CRASHES
from tests.simulation.mutants.groups import GROUPS
from tests.simulation.mutants.ranges import RANGES
from tests.simulation.mutants.relay import RELAY
from tests.simulation.mutants.replication import REPLICATION
from tests.simulation.mutants.serving import SERVING
from tests.simulation.mutants.shares import SHARES
from tests.simulation.mutants.storage import STORAGE
from tests.simulation.mutants.store import STORE
from tests.simulation.mutants.transactions import (
    CLUSTER_RAISED_EPOCHS,
    CLUSTER_TRANSACTIONS,
    RAISED_EPOCHS,
    TRANSACTIONS,
)
from tests.simulation.relays import history as relay_history
from tests.simulation.shares import history as shares_history
from tests.simulation.storage import case, ranges
from tests.simulation.store_server import history as store_history
from tests.simulation.transactions import history as transactions_history

ALL: tuple[Mutant, ...] = (
    *STORAGE, *SERVING, *REPLICATION, *CRASHES, *RANGES, *TRANSACTIONS, *CLUSTER_TRANSACTIONS, *PRODUCERS, *MEMBERS,
    *STORE, *GROUPS, *SHARES, *RELAY, *RAISED_EPOCHS, *CLUSTER_RAISED_EPOCHS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hunt:
    """How a mutant fared. `violation` is None when it lived."""

    mutant: Mutant
    seeds: int
    violation: str | None


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Hunt:
    """Run histories until one breaks a promise."""
    run: Callable[[int], history.Outcome] = history.run
    if mutant in REPLICATION:
        run = cluster_history.run
    elif mutant in CRASHES:
        run = case.run
    elif mutant in RANGES:
        run = ranges.run
    elif mutant in GROUPS:
        run = groups_history.run
    elif mutant in SHARES:
        run = shares_history.run
    elif mutant in RELAY:
        run = relay_history.run
    elif mutant in STORE:
        run = store_history.run
    elif mutant in (*TRANSACTIONS, *PRODUCERS):
        run = transactions_history.run
    elif mutant in CLUSTER_TRANSACTIONS:
        run = transactions_history.run_cluster
    elif mutant in RAISED_EPOCHS:
        run = transactions_history.run_with_levels
    elif mutant in CLUSTER_RAISED_EPOCHS:
        run = transactions_history.run_cluster_with_levels
    count = 0
    with mutant.planted():
        for count, seed in enumerate(seeds, 1):
            outcome = run(seed)
            if outcome.violation is not None:
                return Hunt(mutant, count, outcome.violation)
    return Hunt(mutant, count, None)
