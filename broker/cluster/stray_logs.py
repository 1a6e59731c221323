"""Stray logs, whose topics the cluster does not know: logged at the start, kept, and not served.

They remain when a store was lost or replaced, or when a directory was moved to another cluster. An operator must know of them
before a topic of that name is created again. Neither retention nor the cleaner changes them: the settings of their topics are
unknown.

Source: Kafka LogManager.isStrayReplica, which finds them in KRaft mode alone.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from metadata.store.port import NoNodeError, StoreError, Tree
from metadata.store.znodes import TOPICS
from protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class StoredLog(Protocol):
    @property
    def directory(self) -> str: ...


async def warn_of_stray_logs(store: Tree, logs: Mapping[TopicPartition, StoredLog]) -> bool:
    """Log one warning for all stray logs; return whether there are any. If the store does not respond, the check is
    skipped: it must not stop a start."""
    try:
        topics = set(await store.children(TOPICS))
    except NoNodeError:
        topics = set()
    except StoreError:
        return False
    strays = stray_logs(logs, topics)
    if strays:
        logger.warning(
            "logs kept but not served, the cluster does not know their topics; check that "
            "zookeeper.connect, or barnabas-store.sqlite in log.dirs, is the one of this data: logs=%d "
            "example=%s",
            len(strays), logs[strays[0]].directory,
        )  # fmt: skip
    return bool(strays)


def stray_logs(logs: Iterable[TopicPartition], topics: Container[str]) -> list[TopicPartition]:
    """Return the logs whose topic is not among `topics`, in order."""
    return sorted(key for key in logs if key[0] not in topics)
