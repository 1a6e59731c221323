"""Removes topics that were deleted while this broker was not notified.

A controller sends a deletion once. A broker that is not registered then, or not connected when the next controller is elected,
misses it: afterwards it receives only the topics that exist. Without this module it would list the deleted topic until its
next restart.

Rules: with the first image of another controller epoch or another registration of this broker, the topics in the image are
compared with those in the store. The store is synced first: topics in the image existed before, so those that are missing
afterwards were deleted. Retried until the store responds, by one task at a time.
Source: none in Apache Kafka, whose brokers keep the topic until they are restarted.
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

# The controller epoch, and the broker epoch.
Epochs = tuple[int, int]


class DeletedTopics:
    """`epochs` returns the current epochs; `forget` removes topics from the image, if they are still in it."""

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
        self._checked_epochs: Epochs | None = None
        self._is_checking = False

    def on_image(self, image: ClusterImage) -> None:
        """Check for deleted topics if the epochs have changed. Called with every image, in order."""
        if self._epochs() == self._checked_epochs or self._tasks.is_closed:
            return
        if not image.topics:  # no topic could have been deleted
            self._checked_epochs = self._epochs()
        elif not self._is_checking:
            self._is_checking = True
            self._tasks.spawn(self._check(), name="forget deleted topics")

    async def _check(self) -> None:
        try:
            while (epochs := self._epochs()) != self._checked_epochs:
                known = list(self._metadata.image.topics.values())
                try:
                    await self._store.sync(znodes.TOPICS)
                    present = set(await self._store.children(znodes.TOPICS))
                except StoreError:
                    await asyncio.sleep(RETRY_PAUSE_S)
                    continue
                deleted = [topic for topic in known if topic.name not in present]
                if deleted:
                    logger.info(
                        "topics were deleted while this broker was away: topics=%d example=%s",
                        len(deleted),
                        deleted[0].name,
                    )
                    await self._forget(deleted)
                self._checked_epochs = epochs
        finally:
            self._is_checking = False
