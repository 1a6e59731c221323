"""Notifications of brokers to the controller in the store: changed ISRs, and failed log directories.

Rules: each notification is a node of its own, read once and removed; a new controller removes the existing ones before
it reads everything. Leaders of inter.broker.protocol.version 2.7-IV2 and later send
AlterPartition instead of the first kind; others write ISRs themselves and notify the controller.
Source: Kafka KafkaController.processIsrChangeNotification, processLogDirEventNotification; KIP-112.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from controller import reassignment_execution
from controller.controller_context import ReplicaPhase
from controller.controller_term import Term
from metadata.store import znodes
from metadata.store.port import Delete

T = TypeVar("T")

logger = logging.getLogger(__name__)


async def discard(term: Term) -> None:
    """Remove existing notifications, and set the watches."""
    for parent in (znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES):
        names = await term.session.children(parent, term.watch)
        await term.write_many([[Delete(f"{parent}/{name}")] for name in names])


async def on_isr_changes(term: Term) -> None:
    """Read the changed ISRs, and send them to all brokers as metadata."""
    changed = await _take(term, znodes.ISR_CHANGES, znodes.decode_topic_partitions)
    keys = list(dict.fromkeys(key for keys in changed for key in keys if key in term.context.leadership))
    if keys:
        term.context.leadership.update(await term.read_states(keys))
        await term.send_metadata(term.context.live_brokers, keys)
        await reassignment_execution.complete_where_in_sync(term, keys)


async def on_log_dir_events(term: Term) -> None:
    """Send LeaderAndIsr to the brokers with failed directories: they respond with KAFKA_STORAGE_ERROR for lost replicas."""
    broker_ids = set(await _take(term, znodes.LOG_DIR_EVENTS, znodes.decode_log_dir_event))
    if not broker_ids:
        return
    logger.info("log directories failed: brokers=%s", sorted(broker_ids))
    context = term.context
    batch = term.new_batch()
    asked = [each for each in context.replicas_on(broker_ids) if not context.is_being_deleted(each[0])]
    await term.move_replicas(batch, asked, ReplicaPhase.ONLINE)
    await term.send(batch)


async def _take(term: Term, parent: str, decode: Callable[[bytes], T]) -> list[T]:
    """Read and remove the children, and watch for later ones."""
    names = await term.session.children(parent, term.watch)
    paths = [f"{parent}/{name}" for name in names]
    found: list[T] = []
    for path, node in zip(paths, await term.session.read_many(paths), strict=True):
        if node is None:
            continue
        try:
            found.append(decode(node[0]))
        except ValueError as error:
            logger.warning("notification unreadable, removed: path=%s error=%s", path, error)
    await term.write_many([[Delete(path)] for path in paths])
    return found
