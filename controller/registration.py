"""A broker's place in the tree: the persistent paths, the cluster id, and /brokers/ids/N with the broker's epoch.

Rules: the broker epoch is the czxid of the broker's node. A node of the same id that belongs to another session is
never removed: it is another broker, or our own earlier self whose session must end first.
Source: Kafka KafkaZkClient.registerBroker, createTopLevelPaths, createOrGetClusterId; KIP-380.
"""

from __future__ import annotations

import base64

from controller import znodes
from controller.store import ConnectionLossError, NodeExistsError, NoNodeError, Tree, ensure_path
from controller.znodes import BrokerRegistration
from runtime.randomness import Randomness, uuid_bytes


class BrokerIdTakenError(Exception):
    """Another live session has registered this broker id."""


async def ensure_persistent_paths(store: Tree) -> None:
    for path in znodes.PERSISTENT_PATHS:
        await ensure_path(store, path)
    if await store.exists(znodes.FEATURE) is None:
        try:
            await store.create(znodes.FEATURE, znodes.encode_feature())
        except NodeExistsError:
            return  # another broker was faster


async def cluster_id(store: Tree, randomness: Randomness, remembered: str | None = None) -> str:
    """The cluster's id. The first broker of a cluster makes it, from what its data directory remembers if it does."""
    try:
        data, _ = await store.get(znodes.CLUSTER_ID)
        return znodes.decode_cluster_id(data)
    except NoNodeError:
        own = remembered or base64.urlsafe_b64encode(uuid_bytes(randomness)).rstrip(b"=").decode()
    await ensure_path(store, znodes.CLUSTER)
    try:
        await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(own))
    except (NodeExistsError, ConnectionLossError):
        data, _ = await store.get(znodes.CLUSTER_ID)
        return znodes.decode_cluster_id(data)
    return own


async def register_broker(store: Tree, session_id: int, registration: BrokerRegistration) -> int:
    """Returns the broker epoch. Raises BrokerIdTakenError."""
    path = znodes.broker_path(registration.broker_id)
    try:
        await store.create(path, registration.encode(), ephemeral=True)
    except (NodeExistsError, ConnectionLossError) as error:
        stat = await store.exists(path)
        if stat is None:
            raise
        if stat.ephemeral_owner != session_id:
            raise BrokerIdTakenError(
                f"broker id {registration.broker_id} is registered by session {stat.ephemeral_owner:#x}"
            ) from error
        await store.set(path, registration.encode())
    stat = await store.exists(path)
    assert stat is not None, "the node of a live session vanished"
    return stat.czxid
