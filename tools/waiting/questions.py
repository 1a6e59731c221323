"""Asks the cluster what may hinder a command, beside the clients that wait.

Rules: blocking, for the thread of a watch; LIMIT_MS for each round. Who does not answer, or refuses, tells nothing. Nothing is
asked that creates a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from tools.health import answers
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.settings import MIN_ISR
from tools.health.view import BrokerView
from tools.log_dirs_request import log_dirs_request
from tools.waiting.hindrances import REBALANCING, GroupState, TopicState

if TYPE_CHECKING:
    from runtime.clock import Clock
    from tools.cluster_access import ClusterAccess

LIMIT_MS = 900
OFFSETS_TOPIC = "__consumer_offsets"
_GROUP = 0
_OLD_FIND_COORDINATOR = 3
"""Versions up to this one ask for one group."""


class Questions:
    """Connects when it is first asked; `close` once."""

    def __init__(self, settings: ClusterAccess, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._requests: BrokerRequests | None = None

    def close(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def topic(self, topic: str) -> TopicState:
        """Raises Unreachable."""
        metadata = self._metadata(topic)
        [row] = metadata.topics
        partitions = answers.partitions(metadata)
        holders = {broker for each in partitions for broker in each.replicas} & {
            each.node_id for each in metadata.brokers
        }
        found = self._ask({
            broker: [
                log_dirs_request([each.key for each in partitions if broker in each.replicas]),
                answers.configs_request([(answers.BROKER, str(broker))]),
            ]
            for broker in holders
        })  # fmt: skip
        brokers = {}
        for broker, [disks, settings] in found.items():
            brokers[broker] = BrokerView(
                broker, "", None,
                directories=() if disks is None else answers.log_directories(disks),
                settings={} if settings is None else answers.settings(settings).get(str(broker), {}),
            )  # fmt: skip
        return TopicState(topic, row.error_code, partitions, self._min_isr(topic, holders), brokers)

    def group(self, group: str) -> GroupState:
        """Raises Unreachable."""
        from kafka.protocol.metadata import FindCoordinatorRequest  # noqa: PLC0415

        metadata = self._metadata()
        asked = FindCoordinatorRequest(key=group, key_type=_GROUP, max_version=_OLD_FIND_COORDINATOR)
        found = self._ask({each.node_id: [asked] for each in metadata.brokers}).values()
        told = min(
            (answer for [answer] in found if answer is not None), key=lambda each: each.error_code != 0, default=None
        )
        if told is None or told.error_code not in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            return GroupState(group, -1)
        if told.error_code:
            return GroupState(group, offsets=self.topic(OFFSETS_TOPIC))
        [described] = self._ask({told.node_id: [answers.describe_groups_request([group])]})[told.node_id]
        if described is None:
            return GroupState(group, told.node_id)
        [row] = described.groups
        offsets = self.topic(OFFSETS_TOPIC) if row.group_state in REBALANCING else None
        return GroupState(group, told.node_id, row.error_code, row.group_state, len(row.members), offsets)

    def has_controller(self) -> bool:
        """Raises Unreachable."""
        return bool(self._metadata().controller_id >= 0)

    def _metadata(self, *topics: str) -> Any:
        """Raises Unreachable."""
        from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

        if self._requests is None:
            self._requests = BrokerRequests(self._settings, self._clock, LIMIT_MS)
        rows = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        return self._requests.connect(MetadataRequest(topics=rows, allow_auto_topic_creation=False), LIMIT_MS)

    def _min_isr(self, topic: str, brokers: Iterable[int]) -> int | None:
        broker = min(brokers, default=None)
        if broker is None:
            return None
        [answer] = self._ask({broker: [answers.configs_request([(answers.TOPIC, topic)])]})[broker]
        text = "" if answer is None else answers.settings(answer).get(topic, {}).get(MIN_ISR, "")
        return int(text) if text.isdigit() else None

    def _ask(self, asked: Mapping[int, list[Any]]) -> dict[int, list[Any]]:
        """Return the answers of each broker, None in the place of one that it did not give."""
        assert self._requests is not None
        found = self._requests.ask(asked, LIMIT_MS)
        return {
            broker: [None if isinstance(each, Unanswered) else each for each in rows] for broker, rows in found.items()
        }
