"""The controller's handling of changes in the store: of brokers, topics and partitions.

Each function reads the changed nodes, sets their watches again, updates the state machines and sends the requests. Handling is
idempotent: a change that is notified twice, or late, leads to the same state.
Source: Kafka KafkaController (processBrokerChange, processTopicChange, processPartitionModifications,
onControllerFailover).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice

from controller import features, partition_state_machine, reassignment_execution, replica_state_machine, topic_deletion
from controller.controller_context import LiveBroker, PartitionPhase, Replica, ReplicaPhase
from controller.controller_term import READS_STEP, Term
from controller.elections import leader_elections
from controller.events import notifications
from metadata.store import znodes
from metadata.store.node_reading import decoded, read_registrations
from metadata.store.port import BadVersionError, NoNodeError, SetData, StoreError
from metadata.store.znodes import BrokerRegistration, ReplicaAssignment, TopicRegistration
from protocol.primitives import ZERO_UUID
from runtime.error_texts import reason_of
from runtime.log_texts import listed
from runtime.randomness import Randomness, uuid_bytes

logger = logging.getLogger(__name__)


# --- after the election ---


async def take_over(term: Term, randomness: Randomness) -> None:
    """Read the whole store, send the live brokers to all, bring partitions and replicas online, and continue the work of
    the last controller."""
    context = term.context
    await features.set_up(term)
    await notifications.discard(term)
    for broker_id, (registration, epoch) in (await read_registrations(term.session, term.watch)).items():
        context.live_brokers[broker_id] = LiveBroker(registration, epoch)
        term.channels.add(registration)
    names = await term.session.children(znodes.TOPICS, term.watch)
    await _add_topics(term, names, randomness)
    await _read_states(term)
    await topic_deletion.read_requested_deletions(term, is_enabled=term.settings.delete_topic_enable)
    reassignment_execution.find_unfinished(term)

    # Brokers must know each other before they learn which leader to follow.
    await term.send_metadata(context.live_brokers)
    await _start_machines(term)
    await bring_all_online(term)
    await reassignment_execution.take_over(term)
    await topic_deletion.resume(term)
    await leader_elections.on_preferred_elections_requested(term)
    term.create_internal_topics()


async def _read_states(term: Term) -> None:
    """Read the states of all partitions in steps, so that the data in memory is bounded."""
    remaining = term.context.all_partitions()
    while step := list(islice(remaining, READS_STEP)):
        term.context.leadership.update(await term.read_states(step))


async def _start_machines(term: Term) -> None:
    """Set the initial phase of every partition and replica, remove dead replicas from ISRs, and elect leaders in place of dead
    ones, in this order as Apache Kafka's controller does: each of the two raises the leader epoch. Brokers get the result in
    one batch of requests. Replicas of topics that are being deleted get none: a broker that has deleted one already would
    create it again and accept records."""
    context = term.context
    offline = []
    batch = term.new_batch()
    for each in context.all_partitions():
        context.partition_phases[each] = partition_state_machine.initial_phase(context, each)
        for replica in context.replicas_of([each]):
            phase = context.replica_phases[replica] = replica_state_machine.initial_phase(context, replica)
            if phase is ReplicaPhase.ONLINE and not context.is_being_deleted(each[0]):
                replica_state_machine.move(context, batch, [replica], ReplicaPhase.ONLINE)
            elif phase is ReplicaPhase.OFFLINE:
                offline.append(replica)
        await term.yield_if_due()
    await term.take_replicas_offline(offline, into=batch)
    elections = await term.elect_leaderless(context.all_partitions(), into=batch)
    if elections.elected:
        logger.info("leaders elected in place of dead ones: partitions=%d", len(elections.elected))
    await term.send(batch)


async def bring_all_online(term: Term) -> None:
    await term.bring_online(term.context.partitions_in(PartitionPhase.NEW, PartitionPhase.OFFLINE))


async def _add_topics(term: Term, names: Iterable[str], randomness: Randomness) -> list[str]:
    """Read topics into the context. A topic without an id gets one, and is read again if its node was changed meanwhile.
    Returns the topics that exist."""
    added: list[str] = []
    wanted = list(names)
    while wanted:
        nodes = await term.session.read_many([znodes.topic_path(name) for name in wanted], term.watch)
        without_id: dict[str, tuple[TopicRegistration, int]] = {}
        for name, node in zip(wanted, nodes, strict=True):
            if node is None:
                continue
            registration = decoded(znodes.topic_path(name), partial(TopicRegistration.decode, name, node[0]))
            if registration is None:
                continue
            if registration.topic_id == ZERO_UUID and term.context.version.supports_topic_ids:
                without_id[name] = replace(registration, topic_id=uuid_bytes(randomness)), node[1].version
            else:
                term.context.add_topic(name, registration.topic_id, registration.assignments)
                added.append(name)
            await term.yield_if_due()
        given, wanted = await _give_ids(term, without_id)
        added += given
    return added


async def _give_ids(term: Term, topics: dict[str, tuple[TopicRegistration, int]]) -> tuple[list[str], list[str]]:
    """Write topic ids. Brokers store a topic's id with its log, so they get only ids that its node has. `topics` are the
    registrations with their ids, and the versions of their nodes; a topic whose id cannot be written has none. Returns
    (the topics that were added, those to be read again)."""
    outcomes = await term.write_many(
        [[SetData(znodes.topic_path(name), topic.encode(), version)] for name, (topic, version) in topics.items()]
    )
    added: list[str] = []
    again: list[str] = []
    for (name, (topic, _)), outcome in zip(topics.items(), outcomes, strict=True):
        if isinstance(outcome, BadVersionError):
            again.append(name)
        elif not isinstance(outcome, NoNodeError):
            topic_id = topic.topic_id
            if isinstance(outcome, StoreError):
                logger.warning("topic id not stored: topic=%s error=%s", name, reason_of(outcome))
                topic_id = ZERO_UUID
            term.context.add_topic(name, topic_id, topic.assignments)
            added.append(name)
    return added, again


# --- brokers ---


async def on_brokers_changed(term: Term) -> None:
    context = term.context
    current = await read_registrations(term.session, term.watch)
    known = context.live_brokers
    lost = {each for each in known if each not in current}
    restarted = {each for each in current if each in known and current[each][1] > known[each].epoch}
    added = {each for each in current if each not in known}
    if not (lost or restarted or added):
        return
    logger.info(
        "brokers changed: new_brokers=%s gone_brokers=%s restarted_brokers=%s",
        listed(sorted(added)),
        listed(sorted(lost)),
        listed(sorted(restarted)),
    )
    for broker_id in sorted(lost | restarted):
        term.channels.remove(broker_id)
        del context.live_brokers[broker_id]
    if lost or restarted:
        await _on_brokers_lost(term, lost | restarted)
    for broker_id in sorted(added | restarted):
        registration, epoch = current[broker_id]
        context.live_brokers[broker_id] = LiveBroker(registration, epoch)
        term.channels.add(registration)
    if added or restarted:
        await _on_brokers_added(term, added | restarted)
        term.create_internal_topics()


async def _on_brokers_lost(term: Term, lost: set[int]) -> None:
    context = term.context
    context.shutting_down -= lost
    for broker_id in lost:
        context.offline_directories.pop(broker_id, None)
    await on_replicas_lost(term, context.replicas_on(lost))


async def on_replicas_lost(term: Term, going: list[Replica]) -> None:
    """Elect other leaders for the partitions of replicas that cannot be reached, and remove these from ISRs."""
    context = term.context
    leaderless = [
        each
        for each, state in context.leadership.pairs()
        if not context.is_replica_online(state.leader, each)
        and not context.is_being_deleted(each[0])
        and partition_state_machine.can_move(context, each, PartitionPhase.OFFLINE)
    ]
    partition_state_machine.move(context, leaderless, PartitionPhase.OFFLINE)
    lost = set(leaderless)
    waiting = [each for each in context.partitions_in(PartitionPhase.NEW, PartitionPhase.OFFLINE) if each not in lost]
    staying = [each for each in going if not context.is_being_deleted(each[0])]
    await term.take_down(leaderless, staying)
    await term.bring_online(waiting)
    await topic_deletion.on_brokers_failed(term, [each for each in going if context.is_being_deleted(each[0])])
    if not leaderless and not staying:  # no broker has got the live brokers yet
        await term.send_metadata(context.live_brokers)


async def _on_brokers_added(term: Term, added: set[int]) -> None:
    context = term.context
    await term.send_metadata([each for each in context.live_brokers if each not in added])
    # The whole cluster before the first LeaderAndIsr: a broker does not follow a leader that it does not know.
    batch = term.new_batch()
    batch.announce(added, context.all_partitions())
    await term.send(batch)
    theirs = context.replicas_on(added)
    batch = term.new_batch()
    staying = [each for each in theirs if not context.is_being_deleted(each[0])]
    await term.move_replicas(batch, staying, ReplicaPhase.ONLINE)
    await term.send(batch)
    await bring_all_online(term)
    await reassignment_execution.on_brokers_added(term, added)
    if any(context.is_being_deleted(each[0]) for each in theirs):
        await topic_deletion.resume(term)


async def on_broker_modified(term: Term, broker_id: int) -> None:
    """Handle a changed registration, such as other endpoints, without a restart."""
    known = term.context.live_brokers.get(broker_id)
    if known is None:
        return
    try:
        data, stat = await term.session.get(znodes.broker_path(broker_id), term.watch)
    except NoNodeError:
        return  # the watch of its parent notifies of that
    registration = decoded(znodes.broker_path(broker_id), partial(BrokerRegistration.decode, broker_id, data))
    if registration is None:
        return
    if stat.czxid == known.epoch and registration.endpoints != known.registration.endpoints:
        term.context.live_brokers[broker_id] = LiveBroker(registration, stat.czxid)
        term.channels.move(registration)
        await term.send_metadata(term.context.live_brokers)


# --- topics ---


async def on_topics_changed(term: Term, randomness: Randomness) -> None:
    context = term.context
    names = await term.session.children(znodes.TOPICS, term.watch)
    present = set(names)
    for name in [each for each in context.topics if each not in present]:
        context.remove_topic(name)
        context.topics_to_delete.pop(name, None)
        context.deletions_started.discard(name)
    added = await _add_topics(term, [name for name in names if name not in context.topics], randomness)
    new = [each for name in added for each in context.partitions_of(name)]
    if new:
        await term.create_partitions(new)


async def on_topic_modified(term: Term, name: str) -> None:
    """Create the partitions that were added to a topic; other changes of its node are ignored."""
    context = term.context
    if name not in context.topics:
        return
    try:
        data, stat = await term.session.get(znodes.topic_path(name), term.watch)
    except NoNodeError:
        return  # the watch of its parent notifies of that
    registration = decoded(znodes.topic_path(name), partial(TopicRegistration.decode, name, data))
    if registration is None:
        return
    known = dict(context.assignments.of(name))
    added = [(name, index) for index in registration.assignments if index not in known]
    if not added:
        return
    if context.is_being_deleted(name):
        await _undo_growth(term, name, registration, known, stat.version)
        return
    for key in added:
        context.set_assignment(key, registration.assignments[key[1]])
    await term.create_partitions(added)


async def _undo_growth(
    term: Term, name: str, registration: TopicRegistration, assignments: dict[int, ReplicaAssignment], version: int
) -> None:
    """Restore the node of a topic that got partitions while it is being deleted."""
    logger.warning("new partitions ignored, their topic is being deleted: topic=%s", name)
    restored = replace(registration, assignments=assignments)
    [outcome] = await term.write_many([[SetData(znodes.topic_path(name), restored.encode(), version)]])
    if isinstance(outcome, StoreError):
        logger.warning("partition list of a topic not restored: topic=%s error=%s", name, reason_of(outcome))


async def on_deletions_requested(term: Term) -> None:
    await topic_deletion.read_requested_deletions(term, is_enabled=term.settings.delete_topic_enable)
    await topic_deletion.resume(term)


async def on_unclean_election_enabled(term: Term, topic: str | None) -> None:
    """Elect leaders of partitions without one: of `topic`, or (None) of all topics."""
    waiting = term.context.partitions_in(PartitionPhase.NEW, PartitionPhase.OFFLINE)
    await term.bring_online([each for each in waiting if topic is None or each[0] == topic])
