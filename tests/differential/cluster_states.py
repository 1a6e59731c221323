"""What happens to the states of partitions while brokers die, return and control: scenario by scenario, each going on from
where the one before left the cluster.

Three brokers of one kind; broker 1 starts first and controls. A history is every value that a state node had, in order: it
tells leaders, in-sync sets, leader epochs, and the node's version by its place. A broker that is killed has its nodes deleted
by the test, as the end of its session would, so that nothing depends on when sessions end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from tests.differential.recording import dump
from tests.oracle.admin import Admin
from tests.oracle.cluster import Cluster
from tests.oracle.transaction_log import changes

FOLDER = Path(__file__).resolve().parent / "recorded" / "cluster_states"
SETTINGS = {
    "zookeeper.session.timeout.ms": "120000",
    "replica.lag.time.max.ms": "120000",
    "unclean.leader.election.enable": "false",
}
BALANCING = {
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
UNCLEAN = {"unclean.leader.election.enable": "true"}
TOPICS: dict[str, tuple[list[int], dict[str, str]]] = {
    "led-by-2": ([2, 3, 1], {}),
    "led-by-2-with-3": ([2, 3], {}),
    "led-by-2-with-3-unclean": ([2, 3], UNCLEAN),
    "only-on-2": ([2], {}),
    "only-on-2-unclean": ([2], UNCLEAN),
    "led-by-1": ([1, 2, 3], {}),
    "led-by-1-with-2": ([1, 2], {}),
    "led-by-1-with-2-unclean": ([1, 2], UNCLEAN),
    "only-on-1": ([1], {}),
    "led-by-3-with-2": ([3, 2], {}),
    "led-by-3-with-1": ([3, 1], {}),
}
TIMEOUT_S = 90.0

History = dict[str, list[str]]
"""Topic -> what its partition's state node became, in order."""


class ClusterStates:
    def __init__(self, kind: str, settings: Mapping[str, str]) -> None:
        self.cluster = Cluster((kind, kind, kind), settings={**SETTINGS, **settings})
        self.admin = Admin(self.cluster)
        self._markers = 0
        self._read_until = 0

    def __enter__(self) -> Self:
        cluster = self.cluster
        try:
            cluster.start_zookeeper()
            for broker in cluster.brokers.values():
                broker.start()
            cluster.wait_until_known()
            for topic, (replicas, configs) in TOPICS.items():
                self.admin.create(topic, {0: replicas}, configs=configs)
        except BaseException:
            cluster.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.__exit__(kind, error, trace)

    # --- what is done ---

    def kill(self, *broker_ids: int) -> None:
        """All at once in the eyes of the others."""
        for broker_id in broker_ids:
            self.cluster.brokers[broker_id].kill()
        self.unregister(*broker_ids)

    def unregister(self, *broker_ids: int) -> None:
        """As when the sessions of killed brokers end."""
        was_controller = self.cluster.controller_id in broker_ids
        transaction = self.cluster.kazoo.transaction()
        for broker_id in broker_ids:
            transaction.delete(f"/brokers/ids/{broker_id}")
        if was_controller:
            transaction.delete("/controller")
        results = transaction.commit()
        assert not any(isinstance(each, Exception) for each in results), results

    def move_controller(self) -> None:
        """Another term begins, of whichever broker."""
        epoch = self.cluster.read("/controller_epoch")
        self.cluster.kazoo.delete("/controller")
        self.cluster.wait_for("another term begins", lambda: self.cluster.read("/controller_epoch") > epoch, TIMEOUT_S)

    def move_controller_to(self, broker_id: int) -> None:
        """The others hang meanwhile."""
        others = [broker for one, broker in self.cluster.brokers.items() if one != broker_id]
        for broker in others:
            broker.pause()
        try:
            self.move_controller()
            self.cluster.wait_for("it controls", lambda: self.cluster.controller_id == broker_id, TIMEOUT_S)
        finally:
            for broker in others:
                broker.resume()

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.cluster.brokers[broker_id].start()

    def bounce(self, broker_id: int, controller_id: int) -> None:
        """The controller hangs while a broker dies and returns: it learns of both at once."""
        cluster = self.cluster
        cluster.brokers[controller_id].pause()
        returning = Thread(target=cluster.brokers[broker_id].start)
        try:
            self.kill(broker_id)
            returning.start()
            cluster.wait_for("it is registered again", lambda: broker_id in cluster.registered(), TIMEOUT_S)
        finally:
            cluster.brokers[controller_id].resume()
        returning.join(TIMEOUT_S)

    # --- what is waited for ---

    def settle(self) -> None:
        """Until the controller has dealt with everything before: it makes topics in the order of events."""
        alive = next(one for one, broker in self.cluster.brokers.items() if broker.is_running)
        self._markers += 1
        self.admin.create(f"marker-{self._markers}", {0: [alive]})

    def wait_until_whole(self) -> None:
        """Until every broker that runs is in the in-sync set of what has a leader."""
        running = {one for one, broker in self.cluster.brokers.items() if broker.is_running}

        def is_whole() -> bool:
            for topic, replicas in ((each, self.cluster.partitions(each)[0]) for each in TOPICS):
                state = self.cluster.partition(topic, 0)
                assert state is not None
                if state.leader >= 0 and not running & set(replicas) <= set(state.isr):
                    return False
            return True

        self.cluster.wait_for("living replicas are in sync", is_whole, TIMEOUT_S)

    # --- what is kept ---

    def take(self) -> History:
        """What happened since the last time."""
        history: History = {}
        wanted = {f"/brokers/topics/{topic}/partitions/0/state": topic for topic in TOPICS}
        (server,) = self.cluster.zookeeper.servers.values()
        versions: dict[str, int] = {}
        last = self._read_until
        for change in changes(server.data):
            last = max(last, change.zxid)
            if change.path not in wanted or change.data is None:
                continue
            topic = wanted[change.path]
            assert change.version == versions.get(topic, -1) + 1, f"{topic}: {change}"
            versions[topic] = change.version
            if change.zxid > self._read_until:
                state = json.loads(change.data)
                text = "leader {leader} epoch {leader_epoch} isr {isr} controller {controller_epoch}".format(**state)
                recovery = state.get("leader_recovery_state", 0)
                history.setdefault(topic, []).append(text + (f" recovery {recovery}" if recovery else ""))
        self._read_until = last
        return history


Scenario = Callable[[ClusterStates], None]
CLUSTERS: dict[str, Mapping[str, str]] = {"plain": {}, "balancing": BALANCING}
"""The settings of each cluster."""
SCENARIOS: dict[str, dict[str, Scenario]] = {name: {} for name in CLUSTERS}
"""Those of each cluster, in this order."""


def scenario(play: Scenario, cluster: str = "plain") -> Scenario:
    scenarios = SCENARIOS[cluster]
    scenarios[f"{cluster}-{len(scenarios) + 1:02}-{play.__name__.replace('_', '-')}"] = play
    return play


def balancing(play: Scenario) -> Scenario:
    return scenario(play, "balancing")


def played(kind: str) -> Iterator[tuple[str, History]]:
    """The scenarios' names, and what three brokers of `kind` made of the states."""
    for cluster, scenarios in SCENARIOS.items():
        with ClusterStates(kind, CLUSTERS[cluster]) as run:
            for name, play in scenarios.items():
                play(run)
                yield name, run.take()


@scenario
def topics_are_created(_run: ClusterStates) -> None:
    """By the start of the run."""


@scenario
def a_broker_dies(run: ClusterStates) -> None:
    run.kill(2)
    run.settle()


@scenario
def it_returns(run: ClusterStates) -> None:
    run.start(2)
    run.wait_until_whole()
    run.settle()


@scenario
def two_die_one_after_the_other(run: ClusterStates) -> None:
    run.kill(3)
    run.settle()
    run.kill(2)
    run.settle()


@scenario
def the_one_that_is_not_in_sync_returns(run: ClusterStates) -> None:
    run.start(3)
    run.wait_until_whole()
    run.settle()


@scenario
def the_last_one_returns(run: ClusterStates) -> None:
    run.start(2)
    run.wait_until_whole()
    run.settle()


@scenario
def two_die_at_once(run: ClusterStates) -> None:
    run.kill(2, 3)
    run.settle()


@scenario
def they_return_one_after_the_other(run: ClusterStates) -> None:
    for broker_id in (3, 2):
        run.start(broker_id)
        run.wait_until_whole()
        run.settle()


@scenario
def a_broker_bounces(run: ClusterStates) -> None:
    run.bounce(2, controller_id=1)
    run.wait_until_whole()
    run.settle()


@scenario
def the_controller_dies(run: ClusterStates) -> None:
    run.kill(1)
    run.settle()


@scenario
def another_controls_while_one_is_dead(run: ClusterStates) -> None:
    run.move_controller()
    run.settle()


@scenario
def the_first_controller_returns(run: ClusterStates) -> None:
    run.start(1)
    run.wait_until_whole()
    run.settle()


@scenario
def another_controls_while_all_live(run: ClusterStates) -> None:
    run.move_controller()
    run.settle()


@scenario
def the_first_broker_controls_again(run: ClusterStates) -> None:
    run.move_controller_to(1)
    run.settle()


@scenario
def the_controller_and_another_die_at_once(run: ClusterStates) -> None:
    run.kill(1, 2)
    run.settle()


@scenario
def both_return(run: ClusterStates) -> None:
    for broker_id in (1, 2):
        run.start(broker_id)
        run.wait_until_whole()
        run.settle()


@scenario
def a_broker_stops_in_order(run: ClusterStates) -> None:
    run.cluster.brokers[2].stop()
    run.settle()


@scenario
def it_starts_again(run: ClusterStates) -> None:
    run.start(2)
    run.wait_until_whole()
    run.settle()


@scenario
def the_controller_stops_in_order(run: ClusterStates) -> None:
    run.move_controller_to(1)
    run.settle()
    run.cluster.brokers[1].stop()
    run.settle()


@balancing
def leaders_return_beside_a_reassignment(run: ClusterStates) -> None:
    """A reassignment to a broker that has died does not end before it returns."""
    cluster, admin = run.cluster, run.admin
    cluster.brokers[3].pause()
    admin.reassign("only-on-1", {0: [3]}, wait=False)
    run.kill(3)
    run.settle()
    run.kill(2)
    run.settle()
    run.start(2)
    cluster.wait_for("the leader has returned", lambda: cluster.leader_id("led-by-2") == 2, TIMEOUT_S)
    assert admin.reassignments(), "it is still under way"
    run.start(3)
    run.wait_until_whole()
    for topic in TOPICS:
        first = cluster.partitions(topic)[0][0]
        cluster.wait_for("every leader has returned", lambda t=topic, f=first: cluster.leader_id(t) == f, TIMEOUT_S)  # type: ignore[misc]
    cluster.wait_for("the reassignment is complete", lambda: not admin.reassignments(), TIMEOUT_S)
    run.settle()


@balancing
def the_first_target_leads_during_its_own_reassignment(run: ClusterStates) -> None:
    cluster, admin = run.cluster, run.admin
    cluster.brokers[3].pause()
    try:
        admin.reassign("led-by-1-with-2", {0: [2, 3]}, wait=False)
        cluster.wait_for("the target leads", lambda: cluster.leader_id("led-by-1-with-2") == 2, TIMEOUT_S)
        assert admin.reassignments(), "it is still under way"
    finally:
        cluster.brokers[3].resume()
    cluster.wait_for("the reassignments are complete", lambda: not admin.reassignments(), TIMEOUT_S)
    run.settle()


# --- what is recorded ---


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def save(name: str, history: History) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path_of(name).write_text(dump(history) + "\n", encoding="utf-8")


def load(name: str) -> History:
    return json.loads(path_of(name).read_text(encoding="utf-8"))
