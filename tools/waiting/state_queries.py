"""Asks the cluster what may hinder a command, beside the clients that wait.

Rules: blocking, for the thread of a watch; LIMIT_MS for each round. Who does not respond, or refuses, adds nothing. Nothing is
asked that creates a topic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from client.admin.configs import ResourceKind
from client.admin.replicas import log_dirs_request
from client.admin.steps import AnyRequest, ByVersion, KeyKind
from client.cluster_view import find_coordinator_requests
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataResponse
from tools.health import messages
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.settings import MIN_ISR
from tools.health.view import BrokerView
from tools.waiting.hindrances import REBALANCING, GroupState, TopicState

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from runtime.clock import Clock

LIMIT_MS = 900
OFFSETS_TOPIC = "__consumer_offsets"


class StateQueries:
    """Connects when it is first asked; `close` once."""

    def __init__(self, settings: ClientSettings, clock: Clock) -> None:
        self._requests = BrokerRequests(settings, clock)

    def close(self) -> None:
        self._requests.close()

    def topic(self, topic: str) -> TopicState:
        """Raises Unreachable, LoginRefused, SettingsError."""
        metadata = self._metadata(topic)
        [row] = metadata.topics
        partitions = messages.partitions(metadata)
        known = {each.node_id for each in metadata.brokers}
        holders = {broker for each in partitions for broker in each.replicas if broker in known}
        disks = self._ask({
            broker: log_dirs_request([each.key for each in partitions if broker in each.replicas])
            for broker in holders
        })  # fmt: skip
        settings = self._ask({broker: messages.configs_request(ResourceKind.BROKER, [str(broker)]) for broker in disks})
        brokers = {
            broker: BrokerView(
                broker, "", None,
                directories=messages.log_directories(disks[broker]),
                settings=messages.settings(settings[broker]).get(str(broker), {}) if broker in settings else {},
            )
            for broker in disks
        }  # fmt: skip
        return TopicState(topic, row.error_code, partitions, self._min_isr(topic, holders), brokers)

    def group(self, group: str) -> GroupState:
        """Raises Unreachable, LoginRefused, SettingsError."""
        asked = ByVersion(
            FindCoordinatorRequest, lambda version: find_coordinator_requests(KeyKind.GROUP.value, [group], version)[0]
        )
        found = self._ask(dict.fromkeys((each.node_id for each in self._metadata().brokers), asked)).values()
        rows = [row for each in found for row in each.coordinators or [each]]
        best = min(rows, key=lambda row: bool(row.error_code), default=None)
        if best is None or best.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            return GroupState(group, -1)
        if best.error_code:
            return GroupState(group, offsets=self.topic(OFFSETS_TOPIC))
        described = self._ask({best.node_id: DescribeGroupsRequest(groups=[group])}).get(best.node_id)
        if described is None:
            return GroupState(group, best.node_id)
        [row] = described.groups
        offsets = self.topic(OFFSETS_TOPIC) if row.group_state in REBALANCING else None
        return GroupState(group, best.node_id, row.error_code, row.group_state, len(row.members), offsets)

    def has_controller(self) -> bool:
        """Raises Unreachable, LoginRefused, SettingsError."""
        return self._metadata().controller_id >= 0

    def _metadata(self, *topics: str) -> MetadataResponse:
        """Raises Unreachable, LoginRefused, SettingsError."""
        return self._requests.connect(messages.metadata_request(topics), LIMIT_MS)

    def _min_isr(self, topic: str, brokers: Collection[int]) -> int | None:
        asked = {broker: messages.configs_request(ResourceKind.TOPIC, [topic]) for broker in sorted(brokers)[:1]}
        texts = [messages.settings(each).get(topic, {}).get(MIN_ISR, "") for each in self._ask(asked).values()]
        return next((int(text) for text in texts if text.isdigit()), None)

    def _ask(self, asked: Mapping[int, AnyRequest]) -> dict[int, Any]:
        """Return the responses of the brokers that gave one."""
        found = self._requests.ask_each(asked, LIMIT_MS)
        return {broker: each for broker, each in found.items() if not isinstance(each, Unanswered)}
