"""A broker's registration in the store: the persistent paths, the cluster id, its own id, and /brokers/ids/N with the broker's
epoch.

Rules: the broker epoch is the czxid of the broker's node. A node of the same id that belongs to another session is
never removed: it is of another broker, or of an earlier run whose session must end first. After a write without response the
node is read, and the write is retried a few times.
Source: Kafka KafkaZkClient.registerBroker, createTopLevelPaths, createOrGetClusterId, generateBrokerSequenceId; KIP-380.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from config.broker import BrokerSettings
from metadata.features import NO_LEVELS, FeatureLevels
from metadata.store import znodes
from metadata.store.node_reading import decoded
from metadata.store.port import ConnectionLossError, NodeExistsError, NoNodeError, Tree, ensure_path
from metadata.store.znodes import BrokerRegistration, FinalizedFeatures, TopicRegistration
from runtime.randomness import Randomness, uuid_bytes

T = TypeVar("T")

# A store that never responds is handled by the caller.
ATTEMPTS_MAX: Final = 5


class BrokerIdTakenError(Exception):
    """Another live session has registered this broker id."""


async def ensure_persistent_paths(store: Tree, initial: FeatureLevels = NO_LEVELS) -> None:
    """Make the nodes that are there in every cluster. A new cluster gets the `initial` feature levels."""
    for path in znodes.PERSISTENT_PATHS:
        await _until_answered(lambda path=path: ensure_path(store, path))  # type: ignore[misc]
    await _until_answered(lambda: _ensure_node(store, znodes.FEATURE, FinalizedFeatures(initial.above_zero).encode()))


async def cluster_id(store: Tree, randomness: Randomness, remembered: str | None = None) -> str:
    """Return the cluster's id. The first broker of a cluster creates it, from its meta.properties if they have one."""
    own = remembered or base64.urlsafe_b64encode(uuid_bytes(randomness)).rstrip(b"=").decode()
    await _until_answered(lambda: ensure_path(store, znodes.CLUSTER))
    await _until_answered(lambda: _ensure_node(store, znodes.CLUSTER_ID, znodes.encode_cluster_id(own)))
    data, _ = await store.get(znodes.CLUSTER_ID)
    return znodes.decode_cluster_id(data)


async def choose_broker_id(store: Tree, settings: BrokerSettings, remembered: int | None) -> int:
    """`broker.id`, else the one in meta.properties, else a new one above `reserved.broker.max.id`. A standalone broker
    that has lost its meta.properties keeps its id: no other broker has this store, so that its topics are its own."""
    if settings.effective_broker_id >= 0:
        return settings.effective_broker_id
    if remembered is not None:
        return remembered
    if settings.zookeeper_connect is None:
        owners = await brokers_of_topics(store)
        if len(owners) == 1:
            return owners.pop()
        known = await store.exists(znodes.BROKER_SEQUENCE)
        if known is not None and known.version > 0:
            return settings.reserved_broker_max_id + known.version
    stat = await store.set(znodes.BROKER_SEQUENCE, b"")
    return settings.reserved_broker_max_id + stat.version


async def brokers_of_topics(store: Tree, sought: int | None = None) -> set[int]:
    """Return the brokers that have replicas. Stops reading topics when `sought` is found."""
    found: set[int] = set()
    for name in await store.children(znodes.TOPICS):
        path = znodes.topic_path(name)
        data, _ = await store.get(path)
        registration = decoded(path, partial(TopicRegistration.decode, name, data))
        if registration is not None:
            found.update(*(assignment.replicas for assignment in registration.assignments.values()))
        if sought in found:
            break
    return found


async def register_broker(store: Tree, session_id: int, registration: BrokerRegistration) -> int:
    """Make the broker's node and return the broker epoch. An existing node of this session is updated.
    `store` should be the session itself, so that nothing is created under a later one. Raises BrokerIdTakenError, and
    ConnectionLossError when the store did not respond: then, too, it may be called again."""
    path, content = znodes.broker_path(registration.broker_id), registration.encode()
    for _ in range(ATTEMPTS_MAX):
        with suppress(NodeExistsError, ConnectionLossError):  # the node itself has its owner
            await store.create(path, content, ephemeral=True)
        try:
            data, stat = await store.get(path)
            if stat.ephemeral_owner != session_id:
                owner = stat.ephemeral_owner & 0xFFFFFFFFFFFFFFFF
                raise BrokerIdTakenError(f"broker id {registration.broker_id} is registered by session {owner:#x}")
            if data != content:
                await store.set(path, content)
            return stat.czxid
        except NoNodeError:
            continue  # never created, or its owner's session has just ended
    raise ConnectionLossError(path)


async def _ensure_node(store: Tree, path: str, data: bytes) -> None:
    """Create the node with `data` unless it exists."""
    if await store.exists(path) is not None:
        return
    try:
        await store.create(path, data)
    except NodeExistsError:
        return  # another broker has created it


async def _until_answered(attempt: Callable[[], Awaitable[T]]) -> T:
    """Retry `attempt` after a write without response; it reads before it writes."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await attempt()
        except ConnectionLossError:
            continue
    return await attempt()
