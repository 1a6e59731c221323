"""What of the history a user may see: what the user's own DESCRIBE allows, which the cluster says.

Rules: who asks is the user's own cluster, whoever sampled. Who may describe one topic or group is asked each time; which of all
topics a user may see, and whether sizes and figures of brokers, which belong to the cluster, is known for `KNOWN_MS`. Bounded:
of at most `USERS_MAX` users; others are asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Final

from client.admin import brokers as broker_steps
from client.admin import groups as group_steps
from client.admin import topics as topic_steps
from client.admin.brokers import checked
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from client.settings.values import LoginSettings
    from runtime.clock import Clock
    from web.cluster.user_cluster import UserCluster

KNOWN_MS: Final = 30_000
USERS_MAX: Final = 32
ANSWER_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class View:
    """What one user may see: these topics, and whether what belongs to the cluster."""

    topics: frozenset[str]
    has_cluster: bool
    until_ms: int


class Visibility:
    """Of all users."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._views: dict[LoginSettings | None, View] = {}

    async def view(self, cluster: UserCluster) -> View:
        """Return what a user may see. Raises OSError, KafkaError."""
        login = cluster.settings.login
        now_ms = self._clock.monotonic_ms()
        view = self._views.pop(login, None)
        if view is None or view.until_ms <= now_ms:
            seen = await cluster.run(topic_steps.all_topics(), ANSWER_MS)
            topics = frozenset(map(intern, seen))  # interned: the views of many users share the names
            view = View(topics, await self._may_describe_cluster(cluster), now_ms + KNOWN_MS)
        self._views[login] = view
        while len(self._views) > USERS_MAX:
            del self._views[next(iter(self._views))]
        return view

    async def require_topic(self, cluster: UserCluster, topic: str) -> None:
        """Raises KafkaError when the user may not describe it, or it does not exist; OSError."""
        checked(await cluster.run(topic_steps.describe([topic]), ANSWER_MS))

    async def topics_of_group(self, cluster: UserCluster, group: str) -> set[str]:
        """Return the topics in which a group has committed offsets that this user may see. Raises KafkaError when the user may
        not describe the group; OSError."""
        found = checked(await cluster.run(group_steps.committed_offsets_of([group]), ANSWER_MS))
        return {topic for topic, _ in found[group]}

    async def _may_describe_cluster(self, cluster: UserCluster) -> bool:
        try:
            return await cluster.run(broker_steps.may_describe_cluster(), ANSWER_MS)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return False  # nothing is shown that a broker does not allow
            raise
