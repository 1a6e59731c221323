"""The directory of a standalone broker's store, and checks that a store is the one of this broker's data.

The store is in the first of `log.dirs`, unless another one contains it. A new store in another directory would hide every topic
and its settings. So a broker does not start if its store may be in a directory that is offline, nor if it has none of the
replicas of its store's topics: it would lead none of them.

A broker with the data of a cluster does not start with a ZooKeeper that has no cluster: a typing error in `zookeeper.connect`
would start an empty cluster. The check writes nothing. (Apache Kafka creates a new cluster id, and refuses the data.)

Rules: called at the start; `store_directory` blocks.
Source: Kafka KafkaServer.getOrGenerateClusterId, InconsistentClusterIdException.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from metadata.store import znodes
from metadata.store.port import Tree
from metadata.store.registration import brokers_of_topics
from metadata.store.store_file import FILE_NAME
from runtime.disk.filesystem import FileSystem
from storage.directories.log_directory import DirectoryRefused, MetaProperties


def store_directory(paths: Sequence[str], online: Collection[str], filesystem: FileSystem) -> str:
    """Return the one of `paths` that contains the store, or will. `paths` are all of `log.dirs`. Raises DirectoryRefused."""
    for path in paths:
        if path not in online:
            raise DirectoryRefused(
                f"The log directory {path} is offline, and may contain {FILE_NAME}, which has the topics and their settings. "
                f"Repair or mount it, or put a copy of {FILE_NAME} into another log directory and remove {path} from log.dirs."
            )
        if filesystem.exists(f"{path}/{FILE_NAME}"):
            return path
        if not any(filesystem.exists(f"{other}/{FILE_NAME}") for other in online):
            return path
    raise AssertionError("one of the directories contains the store")


async def check_store_has_a_cluster(store: Tree, connect: str, stored: MetaProperties) -> None:
    """Check that the ZooKeeper has a cluster. `connect`: the value of zookeeper.connect; `stored`: the content of
    meta.properties. Raises DirectoryRefused."""
    if stored.cluster_id is None or await store.exists(znodes.CLUSTER_ID) is not None:
        return
    raise DirectoryRefused(
        f"zookeeper.connect={connect} has no cluster, thus no cluster id, but {stored.path} contains the cluster id "
        f"{stored.cluster_id}: its topics are in another ZooKeeper, or under another path of this one. Name that one in "
        "zookeeper.connect; for a new cluster, name other log.dirs."
    )


async def check_store_is_of(broker_id: int, store: Tree, directory: str, stored: MetaProperties) -> None:
    """Check that the store has topics of this broker, if it has any. `stored`: the content of meta.properties. Raises
    DirectoryRefused."""
    owners = await brokers_of_topics(store, broker_id)
    if not owners or broker_id in owners:
        return
    names = " and ".join(map(str, sorted(owners)))
    resolution = "leave broker.id unset, or -1" if len(owners) == 1 else "set broker.id to the one that this is"
    if stored.broker_id is not None:
        resolution = f"set broker.id in {stored.path} to what it was, and nowhere else"
    raise DirectoryRefused(
        f"{directory}/{FILE_NAME} has only topics of broker {names}, but the broker.id is {broker_id}, and would lead none of "
        f"them. To be the broker of this data, {resolution}; for a new broker, name other log.dirs."
    )
