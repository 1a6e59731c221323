"""Forgets topics that were deleted behind this broker's back.

A controller tells of a deletion once. Whoever is not registered at that moment, or whose line is down when the next
controller takes over, never hears of it: both are told afterwards what there is, not what there was. A broker that was
not restarted in between would show such a topic for ever.

Rules: whenever another term of a controller, or another registration of this broker, begins to speak, the topics in the
image are compared with those in the store. The store is synced first: what the image holds was there before, so what is
missing afterwards is gone. Asked until the store answers, by one task at a time.
Apache Kafka has no such thing: its brokers keep the topic until they are restarted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.port import StoreError

if TYPE_CHECKING:
    from metadata.image import ClusterImage, MetadataCache, TopicImage
    from metadata.store.port import Tree
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 1.0

# Of whoever speaks: the controller's epoch, and our own.
Epochs = tuple[int, int]


class DeletedTopics:
    """`epochs` are those of now; `forget` takes topics out of the image, if they are in it still."""

    def __init__(
        self,
        store: Tree,
        metadata: MetadataCache,
        epochs: Callable[[], Epochs],
        forget: Callable[[Iterable[TopicImage]], Awaitable[None]],
        tasks: TaskScope,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._epochs = epochs
        self._forget = forget
        self._tasks = tasks
        self._looked_in: Epochs | None = None
        self._is_looking = False

    def on_image(self, image: ClusterImage) -> None:
        """Hears of every image of the cluster, in order."""
        if self._epochs() == self._looked_in or self._tasks.is_closed:
            return
        if not image.topics:  # nothing that could be gone
            self._looked_in = self._epochs()
        elif not self._is_looking:
            self._is_looking = True
            self._tasks.spawn(self._look(), name="forget deleted topics")

    async def _look(self) -> None:
        try:
            while (epochs := self._epochs()) != self._looked_in:
                known = list(self._metadata.image.topics.values())
                try:
                    await self._store.sync(znodes.TOPICS)
                    present = set(await self._store.children(znodes.TOPICS))
                except StoreError:
                    await asyncio.sleep(RETRY_PAUSE_S)
                    continue
                gone = [topic for topic in known if topic.name not in present]
                if gone:
                    logger.info(
                        "topics were deleted while this broker was away: topics=%d example=%s", len(gone), gone[0].name
                    )
                    await self._forget(gone)
                self._looked_in = epochs
        finally:
            self._is_looking = False
