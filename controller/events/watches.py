"""The events for triggered watches of an elected controller: one row per path of the store.

Rules: changes with different names are queued separately; a change that is already queued is not queued again. /controller is
not here: it concerns controllers that are not elected, too (`controller.controller`).
Source: Kafka KafkaController (its ZNodeChangeHandler and ZNodeChildChangeHandler objects).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller import reassignment_execution
from controller.controller_term import Term
from controller.elections import leader_elections
from controller.events import event_handlers, notifications
from controller.events.event_times import ControllerState
from metadata.store import znodes
from runtime.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Change:
    state: ControllerState
    name: str
    operation: Callable[[Term], Awaitable[object]]


def change_at(path: str, randomness: Randomness) -> Change | None:
    """Return the event for a path, None for a path that does not concern the controller."""
    name = path.rpartition("/")[2]
    match path:
        case znodes.BROKER_IDS:
            return Change(ControllerState.BROKER_CHANGE, "", event_handlers.on_brokers_changed)
        case znodes.TOPICS:
            return Change(
                ControllerState.TOPIC_CHANGE, "", lambda term: event_handlers.on_topics_changed(term, randomness)
            )
        case znodes.DELETE_TOPICS:
            return Change(ControllerState.TOPIC_DELETION, "", event_handlers.on_deletions_requested)
        case znodes.REASSIGNMENTS:
            return Change(ControllerState.ALTER_PARTITION_REASSIGNMENT, "", reassignment_execution.on_requests_changed)
        case znodes.PREFERRED_ELECTION:
            return Change(ControllerState.MANUAL_LEADER_BALANCE, "", leader_elections.on_preferred_elections_requested)
        case znodes.ISR_CHANGES:
            return Change(ControllerState.ISR_CHANGE, "", notifications.on_isr_changes)
        case znodes.LOG_DIR_EVENTS:
            return Change(ControllerState.LOG_DIR_CHANGE, "", notifications.on_log_dir_events)
        case _ if path.startswith(znodes.BROKER_IDS):
            return Change(
                ControllerState.BROKER_CHANGE, name, lambda term: event_handlers.on_broker_modified(term, int(name))
            )
        case _ if path.startswith(znodes.TOPICS):
            return Change(ControllerState.TOPIC_CHANGE, name, lambda term: event_handlers.on_topic_modified(term, name))
    return None
