"""Reading nodes of other writers: one that cannot be decoded is treated as missing.

Source: Kafka KafkaZkClient.getAllBrokerAndEpochsInCluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from metadata.store import znodes
from metadata.store.port import Tree, Watch
from metadata.store.znodes import BrokerRegistration
from runtime.error_texts import reason_of

T = TypeVar("T")

logger = logging.getLogger(__name__)


def decoded(path: str, decode: Callable[[], T]) -> T | None:
    """Decode a node; return None for an invalid one: it must not stop every controller."""
    try:
        return decode()
    except (ValueError, TypeError, AttributeError) as error:  # JSON of an unexpected type
        logger.warning("node unreadable, treated as missing: path=%s error=%s", path, reason_of(error))
        return None


async def read_registrations(session: Tree, watch: Watch | None = None) -> Mapping[int, tuple[BrokerRegistration, int]]:
    """Return the registered brokers with their epochs. `watch` is set on the list and on every broker."""
    ids = znodes.numbers_among(await session.children(znodes.BROKER_IDS, watch))
    nodes = await session.read_many([znodes.broker_path(each) for each in ids], watch)
    found: dict[int, tuple[BrokerRegistration, int]] = {}
    for broker_id, node in zip(ids, nodes, strict=True):
        if node is not None:
            path = znodes.broker_path(broker_id)
            registration = decoded(path, partial(BrokerRegistration.decode, broker_id, node[0]))
            if registration is not None:
                found[broker_id] = (registration, node[1].czxid)
    return found
