"""Whose store it is, and where that of a broker without ZooKeeper is: in the first of `log.dirs`, unless another one holds it.

A new store in another directory would hide every topic, and what its topics' settings keep. So a broker whose store may be in
a directory that is offline does not start, nor one that has none of the replicas of its store's topics: it would lead nothing.

Data of a cluster does not come to a ZooKeeper that has none: a typing error in `zookeeper.connect` would start an empty cluster
over it. Nothing is written there before. (Apache Kafka makes a new cluster id there and refuses the data for that.)

Rules: called at the start; `store_directory` blocks.
Source: Kafka KafkaServer.getOrGenerateClusterId, InconsistentClusterIdException.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from metadata.store import znodes
from metadata.store.embedded import FILE_NAME
from metadata.store.port import Tree
from metadata.store.registration import brokers_of_topics
from runtime.filesystem import FileSystem
from storage.directories.log_directory import DirectoryRefused, MetaProperties


def store_directory(paths: Sequence[str], online: Collection[str], filesystem: FileSystem) -> str:
    """The one of `paths`, which are all of `log.dirs`. Raises DirectoryRefused."""
    for path in paths:
        if path not in online:
            raise DirectoryRefused(
                f"The log directory {path} is offline, and may hold {FILE_NAME}, which names the topics and their settings. "
                f"Mend or mount it, or put a copy of {FILE_NAME} into another log directory and take {path} out of log.dirs."
            )
        if filesystem.exists(f"{path}/{FILE_NAME}"):
            return path
        if not any(filesystem.exists(f"{other}/{FILE_NAME}") for other in online):
            return path
    raise AssertionError("one of the directories holds the store")


async def check_store_has_a_cluster(store: Tree, connect: str, stored: MetaProperties) -> None:
    """`connect`: the value of zookeeper.connect; `stored`: what meta.properties tells. Raises DirectoryRefused."""
    if stored.cluster_id is None or await store.exists(znodes.CLUSTER_ID) is not None:
        return
    raise DirectoryRefused(
        f"zookeeper.connect={connect} has no cluster, thus no cluster id, but {stored.path} holds the cluster id "
        f"{stored.cluster_id}: its topics are in another ZooKeeper, or under another path of this one. Name that one in "
        "zookeeper.connect; for a new cluster, name other log.dirs."
    )


async def check_store_is_of(broker_id: int, store: Tree, directory: str, stored: MetaProperties) -> None:
    """`stored`: what meta.properties tells. Raises DirectoryRefused."""
    owners = await brokers_of_topics(store, broker_id)
    if not owners or broker_id in owners:
        return
    names = " and ".join(map(str, sorted(owners)))
    way_out = "leave broker.id unset, or -1" if len(owners) == 1 else "set broker.id to the one that this is"
    if stored.broker_id is not None:
        way_out = f"set broker.id in {stored.path} to what it was, and nowhere else"
    raise DirectoryRefused(
        f"{directory}/{FILE_NAME} has only topics of broker {names}, but the broker.id is {broker_id}, and would lead none of "
        f"them. To be the broker of this data, {way_out}; for a new broker, name other log.dirs."
    )
