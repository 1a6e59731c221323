"""ElectionResult of a cluster: wished in the tree, by themselves, unclean."""

from __future__ import annotations

import asyncio

import pytest

from controller.elections import leader_elections
from metadata.store import znodes
from protocol.errors import ErrorCode
from tests.controller.cluster_steps import KEY, alter_isr, brokers, code_of, create, state, told, until
from tests.controller.harness import Cluster


@brokers(1, 2)
async def test_preferred_elections_wished_in_the_tree(made: Cluster) -> None:
    await create(made, (1, 2), (1, 2))
    for key in (("t", 0), ("t", 1)):
        await made.active.controller.alter_reassignments({key: [2, 1]})
    await made.active.quiet()
    assert (await state(made)).leader == 1
    wish = znodes.encode_topic_partitions([("t", 0), ("x", 3)])
    for _ in range(2):  # the node is watched for again
        await made.ensemble_store.create(znodes.PREFERRED_ELECTION, wish)

        async def is_gone() -> bool:
            return await made.ensemble_store.exists(znodes.PREFERRED_ELECTION) is None

        await until(is_gone)
    assert (await state(made, ("t", 0))).leader == 2
    assert (await state(made, ("t", 1))).leader == 1


@brokers(1, 2, settings={"leader.imbalance.check.interval.seconds": "1"})
async def test_leaders_go_back_by_themselves(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.controller.FIRST_BALANCE_S", 0.05)
    await create(made, (1, 2))
    await made.active.controller.alter_reassignments({KEY: [2, 1]})
    assert made.active.controller.counts().preferred_replica_imbalance <= 1

    async def is_back() -> bool:
        await asyncio.sleep(0.01)
        return (await state(made)).leader == 2

    await until(is_back)
    await made.active.quiet()
    assert made.active.controller.counts().preferred_replica_imbalance == 0


@brokers(1, 2, 3)
async def test_leaders_go_back_while_something_is_reassigned(made: Cluster) -> None:
    """Another partition, or their own: then the first target leads."""
    await create(made, (1, 2))
    await create(made, (1,), topic="u")
    await create(made, (1, 2), topic="v")
    active = made.active.controller
    await active.alter_reassignments({KEY: [2, 1]})
    await active.alter_reassignments({("u", 0): [2], ("v", 0): [2, 3]})  # they wait for the ISR to grow
    assert [(await state(made, key)).leader for key in (KEY, ("u", 0), ("v", 0))] == [1, 1, 1]
    assert active._term is not None
    await leader_elections.balance_leaders(active._term)
    assert [(await state(made, key)).leader for key in (KEY, ("u", 0), ("v", 0))] == [2, 1, 2]
    assert len(await active.list_reassignments(None)) == 2


@brokers(1, 2, settings={"auto.leader.rebalance.enable": "false"})
async def test_leaders_stay_where_the_setting_says_so(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.controller.FIRST_BALANCE_S", 0)
    await create(made, (1, 2))
    await made.active.controller.alter_reassignments({KEY: [2, 1]})
    await made.active.quiet()
    assert (await state(made)).leader == 1
    assert made.active.controller.counts().preferred_replica_imbalance == 1


@brokers(1, 2)
async def test_an_unclean_election_as_soon_as_it_is_allowed(made: Cluster) -> None:
    active = made.active.broker_id
    other = 3 - active
    await create(made, (other, active))
    assert code_of(await alter_isr(made, [other])) is ErrorCode.NONE
    await made.remove(other)
    await made.active.shows(lambda image: image.topics["t"].partitions[0].leader == -1)
    assert made.active.controller.counts().offline_partitions == 1
    await made.ensemble_store.set(
        znodes.config_path("topics", "t"), znodes.encode_config({"unclean.leader.election.enable": "true"})
    )
    made.active.controller.on_unclean_election_enabled("t")
    await made.active.shows(lambda image: image.topics["t"].partitions[0].leader == active)
    found = await state(made)
    assert (found.isr, found.leader_recovery_state) == ((active,), znodes.RECOVERING)
    assert told(made.active)[-1].leader_recovery_state == znodes.RECOVERING
    assert made.active.controller.unclean_elections_count == 1
    assert code_of(await alter_isr(made, [active])) is ErrorCode.NONE
    assert (await state(made)).leader_recovery_state == znodes.RECOVERED
