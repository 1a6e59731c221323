"""Logs that no topic of the cluster has: told at the start, and left alone.

They are what a lost or foreign store leaves behind, or a directory that moved to another cluster. Their records are there
and nobody can read them, which an operator has to know before a topic of that name is made anew. Neither retention nor
the cleaner touches them: what their topics' settings are nobody knows.

Source: Kafka LogManager.isStrayReplica, which looks for them in KRaft mode alone.
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


async def tell_of_strays(store: Tree, logs: Mapping[TopicPartition, StoredLog]) -> bool:
    """One warning for all of them; whether there are any. A store that cannot be asked now is no reason to stop a start."""
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
    """Those whose topic is not among `topics`, in order."""
    return sorted(key for key in logs if key[0] not in topics)
