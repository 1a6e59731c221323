"""The state nodes, seen at the ensemble at the moment of each change: leaders, their epochs, the ISR.

Invariants: epochs never fall; another leader has another epoch; a leader is in the ISR; it comes from the ISR before,
unless unclean elections are allowed; the ISR is never empty and names nobody twice; controllers' epochs rise, and only
the last one writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from metadata.store import znodes
from metadata.store.node_tree import Staged
from metadata.store.znodes import PartitionState
from protocol.topic_partition import TopicPartition

NO_LEADER = -1
_STATE_PATH = re.compile(r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d+)/state")


@dataclass(frozen=True, slots=True)
class Change:
    """A state node as it was (None: it is new) and as it is (None: it is gone)."""

    key: TopicPartition
    before: PartitionState | None
    after: PartitionState | None


class StateChecker:
    """`on_change` is told after the check. `is_unclean_allowed` goes by topic."""

    def __init__(
        self,
        report: Callable[[str], None],
        count: Callable[[str], None],
        is_unclean_allowed: Callable[[str], bool],
        on_change: Callable[[Change], None],
    ) -> None:
        self._report = report
        self._count = count
        self._is_unclean_allowed = is_unclean_allowed
        self._on_change = on_change
        self._controller_epoch = 0
        self.states: dict[TopicPartition, PartitionState] = {}

    def on_transaction(self, staged: Staged) -> None:
        for path, node in staged.nodes.items():
            match = _STATE_PATH.fullmatch(path)
            if match is not None:
                key = (match["topic"], int(match["partition"]))
                after = None if node is None else PartitionState.decode(node.data, node.version)
                if node is not None:
                    self._check_isr(
                        key, json.loads(node.data)["isr"]
                    )  # as it stands there: to a reader one named twice is one
                self._on_state(key, after)
            elif path == znodes.CONTROLLER_EPOCH and node is not None:
                epoch = znodes.decode_controller_epoch(node.data)
                if epoch < self._controller_epoch:
                    self._report(f"controller epoch {epoch} after {self._controller_epoch}")
                if epoch > self._controller_epoch:
                    self._count("controllers elected")
                self._controller_epoch = epoch

    def _on_state(self, key: TopicPartition, after: PartitionState | None) -> None:
        before = self.states.pop(key, None)
        if after is not None:
            self.states[key] = after
            self._check(key, after)
            if before is not None:
                self._compare(key, before, after)
        self._on_change(Change(key, before, after))

    def _check_isr(self, key: TopicPartition, isr: list[int]) -> None:
        if not isr or len(set(isr)) < len(isr):
            self._report(f"{key}: the ISR is {isr}")

    def _check(self, key: TopicPartition, state: PartitionState) -> None:
        isr = list(state.isr)
        if state.leader != NO_LEADER and state.leader not in isr:
            self._report(f"{key}: leader {state.leader} is not in the ISR {isr}")
        if state.controller_epoch < self._controller_epoch:
            self._report(
                f"{key}: controller epoch {state.controller_epoch} writes in the days of {self._controller_epoch}"
            )

    def _compare(self, key: TopicPartition, before: PartitionState, after: PartitionState) -> None:
        if after.leader_epoch < before.leader_epoch:
            self._report(f"{key}: leader epoch {after.leader_epoch} after {before.leader_epoch}")
        if after.leader != before.leader:
            if after.leader_epoch == before.leader_epoch:
                self._report(f"{key}: leaders {before.leader} and {after.leader} in epoch {after.leader_epoch}")
            if after.leader != NO_LEADER:
                self._count("elections")
        if after.controller_epoch < before.controller_epoch:
            self._report(f"{key}: controller epoch {after.controller_epoch} wrote after {before.controller_epoch}")
        if after.leader != NO_LEADER and after.leader not in before.isr:
            if self._is_unclean_allowed(key[0]):
                self._count("unclean elections")
            else:
                self._report(f"{key}: leader {after.leader} comes from outside of the ISR {list(before.isr)}")
        joined, left = set(after.isr) - set(before.isr), set(before.isr) - set(after.isr)
        if joined:
            self._count("isr expansions")
        if left:
            self._count("isr shrinks")
