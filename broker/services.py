"""The owners a handler may call. Made once, by `broker.owners`; handlers keep no state of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.advertised import AdvertisedAddresses
    from broker.answer_memory import AnswerMemory
    from broker.budget import MemoryBudget
    from broker.control import ControlRequests
    from broker.dispatch import ApiVersionRow
    from broker.dynamic_settings import DynamicSettings
    from broker.internal_topics import InternalTopics
    from broker.metrics import BrokerMetrics
    from config.broker import BrokerSettings
    from controller.host import Controller
    from controller.producer_ids import ProducerIds
    from controller.store import Store
    from coordinator.host import GroupCoordinator
    from metadata.image import MetadataCache
    from replication.fetch_sessions import FetchSessions
    from replication.fetchers import Fetchers
    from replication.log_moves import LogMoves
    from replication.partitions import Partitions
    from runtime.clock import Clock
    from runtime.randomness import Randomness
    from runtime.slices import LongWork
    from runtime.tasks import TaskScope
    from runtime.timer import Timer
    from storage.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Services:
    """`settings` are the static ones; what holds now is `dynamic_settings.settings`. `fetchers` is None for a broker that
    has no others beside it. `requests` is the budget of the bytes that requests keep in memory."""

    settings: BrokerSettings
    broker_id: int
    clock: Clock
    randomness: Randomness
    timer: Timer
    tasks: TaskScope
    long_work: LongWork
    partitions: Partitions
    log_moves: LogMoves
    fetchers: Fetchers | None
    fetch_sessions: FetchSessions
    requests: MemoryBudget
    answers: AnswerMemory
    metadata: MetadataCache
    advertised: AdvertisedAddresses
    control: ControlRequests
    controller: Controller
    producer_ids: ProducerIds
    internal_topics: InternalTopics
    groups: GroupCoordinator
    logs: LogManager
    store: Store
    dynamic_settings: DynamicSettings
    metrics: BrokerMetrics
    api_versions: tuple[ApiVersionRow, ...]
