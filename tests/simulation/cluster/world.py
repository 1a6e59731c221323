"""The world of a cluster: machines that share an ensemble and a network, and everything that is checked between them.

Clients reach every broker. Who leads what is looked up inside the brokers by checkers alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from controller.requests.request_batch import ControlRequest
from coordinator.runtime.partitioner import partition_for
from metadata.store.committed_tree import NO_SESSION
from metadata.store.node_tree import NodeTree
from metadata.store.port import Delete, NoNodeError
from metadata.store.znodes import BROKER_IDS, CONTROLLER, TopicRegistration, topic_path
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from tests.simulation.clock import SimClock
from tests.simulation.cluster.checkers.expiry import ExpiryChecker
from tests.simulation.cluster.checkers.leaders import LeaderChecker
from tests.simulation.cluster.checkers.logs import ClusterLogChecker
from tests.simulation.cluster.checkers.metadata import MetadataChecker, outdated
from tests.simulation.cluster.checkers.promises import PromiseChecker
from tests.simulation.cluster.checkers.states import Change, StateChecker
from tests.simulation.cluster.plan import PORT, TTL, ClusterPlan, broker_settings, node_name, plan_cluster, with_expiry
from tests.simulation.cluster.router import Router
from tests.simulation.disk import SimDisk
from tests.simulation.line import NOT_NOW, Line
from tests.simulation.loop import SimLoop
from tests.simulation.machine import End, Ended, Machine, Started
from tests.simulation.store import SimulatedEnsemble
from tests.simulation.store_server.checkers.server import ServerChecker
from tests.simulation.store_server.file import SimStoreFile
from tests.simulation.store_server.machine import StoreMachine
from tests.simulation.world import World

GROUP_TOPIC = "__consumer_offsets"
GROUP_PARTITIONS = 2
KEPT_CONTROL_REQUESTS = 200  # of those to one broker


@dataclass(frozen=True, slots=True)
class Sent:
    """A control request as it went to a broker."""

    life: int  # of the broker
    request: ControlRequest
    version: int
    response_type: type[Any]


class ClusterWorld(World):
    not_now = NOT_NOW | {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    }

    pace = 6.0  # a cluster does several times the work of one broker for each request
    watermark_may_lag = True
    compacted: frozenset[str] = frozenset()
    """Topics that each replica compacts when it will, so that their files differ."""

    def __init__(self, loop: SimLoop, plan: ClusterPlan | None = None, *, has_server: bool = False) -> None:
        """`plan` is the seed's unless given. With `has_server` brokers have the store server on a machine of its own, and not
        the simulated ensemble."""
        self.plan = plan = plan or with_expiry(plan_cluster(loop.random), loop.random)
        super().__init__(loop, list(plan.topics), ClusterLogChecker)
        self.clock = SimClock(loop)
        self.ensemble = ensemble = SimulatedEnsemble(self.clock, lambda: loop.random.uniform(0.0, 0.002))
        ensemble.session_timeout_s = plan.session_timeout_s
        ensemble.loses_request = lambda: loop.random.random() < 0.5
        self.leaders = LeaderChecker(self.report)
        self.metadata = MetadataChecker(self.report)
        self.promises = PromiseChecker(
            self.report, self.log_end, self.replicas_of, self._is_unsure, self._on_promise_fallen
        )
        self.states = StateChecker(self.report, self.count, self.is_unclean_allowed, self._on_state)
        ensemble.observe = self.states.on_transaction
        self.server = StoreMachine(loop, self.network) if has_server else None
        if self.server is not None:
            self.server.disk.on_kept = self.states.on_transaction
            checker = ServerChecker(self.report, self.count, lambda: self.server.disk)  # type: ignore[union-attr]
            self.server.on_started, self.server.on_applied = checker.on_started, checker.on_applied
            self.server.on_failed = lambda error: self.report(f"the store gave up: {error}")
        self.machines = {broker_id: self._machine(broker_id) for broker_id in plan.broker_ids}
        self.broker_ids = {node_name(broker_id): broker_id for broker_id in plan.broker_ids}
        self.control_requests: dict[int, deque[Sent]] = {
            broker_id: deque(maxlen=KEPT_CONTROL_REQUESTS) for broker_id in plan.broker_ids
        }
        self.most_ahead_ms = 0  # of the clocks of the machines, ever
        self._expect_expiry()
        self.rewinds = 0  # truncations, after which a broker knows less of producers
        self.disk_faults: set[int] = set()  # brokers that may give up

    def _expect_expiry(self) -> None:
        ttls_ms = {topic.name: int(topic.configs[TTL]) for topic in self.topics if TTL in topic.configs}
        if ttls_ms and isinstance(self.logs, ClusterLogChecker):
            self.logs.expiry = ExpiryChecker(
                self.report,
                self.count,
                ttls_ms,
                fastest_ms=lambda: self.wall_ms() + self.most_ahead_ms,
                slowest_ms=lambda: self.wall_ms() + min(each.clock.skew_ms for each in self.machines.values()),
            )

    def _machine(self, broker_id: int) -> Machine:
        rng = self.random
        machine = Machine(
            self.loop,
            self.network,
            node_name(broker_id),
            broker_settings(self.plan, broker_id),
            ensemble=self.ensemble,
            server=self.server,
        )
        machine.storage.cold_probability = rng.choice((0.0, 0.05, 0.3))
        machine.tune = self._tune_disk
        machine.on_ended = lambda ended: self._on_ended(broker_id, ended)
        machine.on_started = self._on_started
        return machine

    def _tune_disk(self, disk: SimDisk) -> None:
        disk.slow_probability = self.random.choice((0.0, 0.1, 0.5))
        disk.max_delay_ms = self.random.choice((1.0, 8.0))

    # --- for clients ---

    def address(self, broker_id: int) -> tuple[str, int]:
        return node_name(broker_id), PORT

    def addresses(self) -> list[tuple[str, int]]:
        return [self.address(broker_id) for broker_id in self.machines]

    def line(self, name: str) -> Line:
        return Router(self, name)

    @property
    def life(self) -> int:
        return self.rewinds + sum(machine.starts_count for machine in self.machines.values())

    def wall_ms(self) -> int:
        return self.clock.wall_ms()

    # --- looking inside ---

    @property
    def tree(self) -> NodeTree:
        """What the store has."""
        if self.server is None:
            return self.ensemble.tree
        return self.server.tree.tree if self.server.tree is not None else SimStoreFile(self.server.disk).load()

    def depose(self) -> None:
        """Somebody deletes /controller by hand."""
        if self.server is None:
            with suppress(NoNodeError):
                self.ensemble.transact(NO_SESSION, [Delete(CONTROLLER)])
        elif self.server.tree is not None:
            self.server.tree.write([Delete(CONTROLLER)], session_id=NO_SESSION, on_done=lambda outcome: None)

    def running(self) -> list[int]:
        return [broker_id for broker_id, machine in self.machines.items() if machine.is_running]

    def log_end(self, broker_id: int, key: TopicPartition) -> int | None:
        machine = self.machines.get(broker_id)
        if machine is None or not machine.is_serving or machine.broker is None:
            return None
        log = machine.broker.logs.logs.get(key)
        return None if log is None or log.failure is not None else log.log_end_offset

    def controller(self) -> int | None:
        """A running broker that believes to be it."""
        return next((each for each in self.running() if self._is_controller(each)), None)

    def _is_controller(self, broker_id: int) -> bool:
        broker = self.machines[broker_id].broker
        return broker is not None and broker._services is not None and broker._services.controller.is_active

    def is_late(self, broker_id: int, sent: Sent) -> bool:
        """Whether the broker lives another life by now, or has heard of a later controller."""
        machine, request = self.machines[broker_id], sent.request
        services = None if machine.broker is None else machine.broker._services
        if sent.life < machine.starts_count or services is None:
            return sent.life < machine.starts_count
        control = services.control
        return request.controller_epoch < control._claims.epoch or -1 < request.broker_epoch < control.broker_epoch

    def _is_unsure(self, broker_id: int) -> bool:
        machine = self.machines.get(broker_id)
        if machine is None or not machine.is_running or machine.broker is None:
            return False
        return not machine.broker.is_sure_of_its_logs

    def coordinator_term(self, group: str, broker_id: int) -> tuple[int, bool]:
        """(a number for the term of the group coordinator that `broker_id` is, whether the ensemble agrees that it is one)."""
        machine, key = self.machines[broker_id], (GROUP_TOPIC, partition_for(group, GROUP_PARTITIONS))
        term = (machine.leader_epoch(key) * 1000 + machine.starts_count) * 10 + broker_id
        return term, self.is_leader(broker_id, key)

    def group_term(self, broker_id: int, group: str) -> int:
        return self.coordinator_term(group, broker_id)[0] if broker_id in self.machines else -1

    def is_group_coordinator(self, broker_id: int, group: str) -> bool:
        return self.coordinator_term(group, broker_id)[1]

    def is_transaction_coordinator(self, broker_id: int, transactional_id: str) -> bool:
        """Whether it knows that it is the coordinator of `transactional_id`, and the ensemble agrees. No topic of this world
        has transactions."""
        return True

    def is_leader(self, broker_id: int, key: TopicPartition) -> bool:
        """Whether it knows that it leads, and the ensemble agrees."""
        state = self.states.states.get(key)
        known = self.machines[broker_id].leader_epoch(key)
        return state is not None and state.leader == broker_id and state.leader_epoch == known

    def unhealed(self) -> list[str]:
        """Partitions without a leader, or whose replicas are not all in sync, and brokers that have not heard of it."""
        found = []
        for key in self.all_keys():
            state = self.states.states.get(key)
            if state is None:
                continue
            replicas = set(self.replicas_of(key))
            if state.leader < 0 or set(state.isr) != replicas:
                found.append(f"{key}: leader {state.leader}, isr {list(state.isr)}, replicas {sorted(replicas)}")
        live = {int(name) for name in self.tree.children(BROKER_IDS)}
        for broker_id, machine in self.machines.items():
            if machine.broker is not None:
                image = machine.broker.metadata.image
                found += outdated(broker_id, image, self.states.states, self.all_keys(), live)
        return found

    def replicas_of(self, key: TopicPartition) -> list[int]:
        node = self.tree.nodes.get(topic_path(key[0]))
        if node is None:
            return []
        return list(TopicRegistration.decode(key[0], node.data).assignments[key[1]].replicas)

    def all_keys(self) -> Iterable[TopicPartition]:
        yield from self.keys
        yield from self.internal_keys()

    def internal_keys(self) -> Iterable[TopicPartition]:
        """The partitions in which coordinators keep their state."""
        yield from ((GROUP_TOPIC, partition) for partition in range(GROUP_PARTITIONS))

    def pruned_starts(self) -> dict[TopicPartition, int]:
        """Where those partitions start whose coordinators delete what they do not need any more."""
        return {}

    # --- what happens ---

    def is_unclean_allowed(self, topic: str) -> bool:
        plan = next((each for each in self.topics if each.name == topic), None)
        return plan is not None and plan.configs.get("unclean.leader.election.enable") == "true"

    def _is_kept(self, key: TopicPartition) -> bool:
        return key in self.logs.partitions or key in self.internal_keys()

    def _on_state(self, change: Change) -> None:
        after = change.after
        self.loop.note(
            f"state {change.key} "
            + ("gone" if after is None else f"leader {after.leader} epoch {after.leader_epoch} isr {list(after.isr)}")
        )
        if not self._is_kept(change.key):
            return
        if after is None:
            self.promises.forget(change.key)
        else:
            self.promises.on_state(change.key, after.leader, after.isr)

    def _on_promise_fallen(self, key: TopicPartition, end_offset: int) -> None:
        self.loop.note(f"promise of {key} falls to {end_offset}")
        self.count("promises that fell")
        self.power_cuts += 1  # for producers the same: what was acknowledged may be gone
        assert isinstance(self.logs, ClusterLogChecker)
        self.logs.fallen(key, end_offset)
        if key[0] == GROUP_TOPIC:
            self.commits.forget_floors()

    def on_leader(self, broker_id: int, key: TopicPartition, topic_id: bytes, leader_epoch: int) -> None:
        self.leaders.on_leader(key, topic_id, leader_epoch, broker_id)
        if self._is_kept(key):
            self.promises.on_leader(key, broker_id)

    def on_watermark(self, broker_id: int, key: TopicPartition, leader_epoch: int, high_watermark: int) -> None:
        """A leader's high watermark."""
        life = self.machines[broker_id].starts_count
        if not self._is_kept(key):
            return
        if self.leaders.on_watermark(key, leader_epoch, broker_id, life, high_watermark):
            state = self.states.states.get(key)
            is_current = state is not None and (state.leader, state.leader_epoch) == (broker_id, leader_epoch)
            self.promises.on_commit(key, high_watermark, is_current=is_current)

    def on_truncated(self, broker_id: int, key: TopicPartition, before: int, after: int) -> None:
        self.loop.note(f"broker {broker_id} cuts {key} from {before} to {after}")
        self.rewinds += 1
        if after < before:
            self.count("truncations")
            if self.is_unclean_allowed(key[0]) and key in self.logs.partitions:
                # What a former leader had, or took after the election that it had not heard of, was read and acknowledged,
                # too, behind what is promised by then.
                assert isinstance(self.logs, ClusterLogChecker)
                self.logs.fallen(key, max(after, self.promises.of(key).end))

    def _on_ended(self, broker_id: int, ended: Ended) -> None:
        self.count(f"ended: {ended.how.value}")
        if ended.how is End.FAILED and broker_id not in self.disk_faults:
            self.report(f"broker {broker_id} gave up: {ended.reason}")
        if ended.how is End.POWER_CRASH:
            self.power_cuts += 1
            self.promises.on_power_lost(broker_id, ended.written, ended.durable)

    def _on_started(self, started: Started) -> None:
        self.count("starts")
