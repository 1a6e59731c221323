"""The world of the relay: a cluster with transactions, some machines that run the relay, and what is known of its records."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.topic_partition import TopicPartition
from tests.simulation.loop import SimLoop
from tests.simulation.relays.facts import Known
from tests.simulation.relays.machine import RelayMachine
from tests.simulation.relays.plan import RELAY, plan_relay
from tests.simulation.transactions.worlds import TransactionClusterWorld

SKEW_MS = 500
"""So far at most clocks of the relay's machines differ from the clients' before anybody sets them."""


class RelayWorld(TransactionClusterWorld):
    def __init__(self, loop: SimLoop) -> None:
        self.relay_plan = plan = plan_relay(loop.random)
        super().__init__(loop, plan.cluster)
        self.known = Known()
        self.rules = plan.rules
        self.relays = [
            RelayMachine(self, f"relay{n}", skew_ms=loop.random.randint(-SKEW_MS, SKEW_MS))
            for n in range(1, plan.relays_count + 1)
        ]

    @property
    def is_excused(self) -> bool:
        """Whether committed records may be gone, as every replica of them lost power."""
        return self.coverage["promises that fell"] > 0

    @property
    def are_clocks_set(self) -> bool:
        """Whether somebody set the clock of a machine of the relay by as much as ids are remembered."""
        return self.coverage["relay clocks set by an hour"] > 0

    def keys_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        wanted = set(topics)
        return [key for key in self.keys if key[0] in wanted]

    def internal_keys(self) -> Iterable[TopicPartition]:
        yield from super().internal_keys()
        yield from (key for key in sorted(self.states.states) if _is_of_relay(key) and key not in self.keys)

    def _is_kept(self, key: TopicPartition) -> bool:
        return _is_of_relay(key) or super()._is_kept(key)


def _is_of_relay(key: TopicPartition) -> bool:
    """Whether it is a topic that the relay makes for itself."""
    return key[0].startswith(f"{RELAY}-")
