"""The owners a handler may call. Made once by `broker.server`, in order; handlers keep no state of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.advertised import AdvertisedAddresses
    from broker.answer_memory import AnswerMemory
    from broker.dispatch import ApiVersionRow
    from broker.dynamic_settings import DynamicSettings
    from broker.internal_topics import InternalTopics
    from broker.metrics import BrokerMetrics
    from config.broker import BrokerSettings
    from controller.host import Controller
    from controller.store import Store
    from coordinator.host import GroupCoordinator
    from metadata.image import MetadataCache
    from replication.fetch_sessions import FetchSessions
    from replication.partitions import Partitions
    from runtime.clock import Clock
    from runtime.randomness import Randomness
    from runtime.tasks import TaskScope
    from runtime.timer import Timer
    from storage.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Services:
    """`settings` are the static ones; what holds now is `dynamic_settings.settings`."""

    settings: BrokerSettings
    broker_id: int
    clock: Clock
    randomness: Randomness
    timer: Timer
    tasks: TaskScope
    partitions: Partitions
    fetch_sessions: FetchSessions
    answers: AnswerMemory
    metadata: MetadataCache
    advertised: AdvertisedAddresses
    controller: Controller
    internal_topics: InternalTopics
    groups: GroupCoordinator
    logs: LogManager
    store: Store
    dynamic_settings: DynamicSettings
    metrics: BrokerMetrics
    api_versions: tuple[ApiVersionRow, ...]
