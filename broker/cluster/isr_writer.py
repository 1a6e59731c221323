"""ISR changes in clusters without AlterPartition: leaders write them to the store.

For `inter.broker.protocol.version` below 2.7-IV2.
Rules: the write is conditional on the version that the leader knows. After a write whose response was lost the node is read:
the write was successful if the data is the written one and the version the next one.
Source: Kafka ZkIsrManager, ReplicationUtils.updateLeaderAndIsr; KafkaZkClient.propagateIsrChanges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.port import BadVersionError, ConnectionLossError, NoNodeError, SessionExpiredError
from metadata.store.znodes import PartitionState
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from metadata.store.port import Store
    from replication.leader import IsrChange

# Partitions in one notification at most, so that it fits into a node (Kafka's number).
PARTITIONS_PER_NOTIFICATION = 3_000


class StoreIsrWriter:
    """Implements `replication.isr_requests.IsrWriter`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(
        self, topic: str, partition: int, change: IsrChange, *, leader_id: int, controller_epoch: int
    ) -> int | None:
        """Write a change; return the new version of the state node, None if another write came first. Raises OSError when the
        outcome is unknown."""
        path = znodes.state_path(topic, partition)
        data = PartitionState(leader_id, change.leader_epoch, change.isr, controller_epoch).encode()
        try:
            return (await self._store.set(path, data, change.partition_epoch)).version
        except NoNodeError:
            return None
        except (BadVersionError, ConnectionLossError):  # the version may be that of an earlier attempt without response
            return await self._written(path, data, change.partition_epoch + 1)
        except SessionExpiredError as error:
            raise ConnectionError("the session with the store has ended") from error

    async def _written(self, path: str, data: bytes, version: int) -> int | None:
        try:
            found, stat = await self._store.get(path)
        except NoNodeError:
            return None
        except (ConnectionLossError, SessionExpiredError) as error:
            raise ConnectionError("the store does not respond") from error
        if (found, stat.version) == (data, version):
            return version
        if stat.version >= version:
            return None
        raise ConnectionError("the write was lost")

    async def announce(self, partitions: Sequence[TopicPartition]) -> None:
        """Notify the controller of changed partitions. Raises OSError."""
        for start in range(0, len(partitions), PARTITIONS_PER_NOTIFICATION):
            data = znodes.encode_topic_partitions(partitions[start : start + PARTITIONS_PER_NOTIFICATION])
            try:
                await self._store.create(znodes.isr_change_path(), data, sequential=True)
            except (ConnectionLossError, SessionExpiredError) as error:
                raise ConnectionError("the store does not respond") from error
