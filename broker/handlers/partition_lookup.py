"""The lookup of the partition that a request names, with the errors of missing partitions and of other leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from protocol.errors import ErrorCode, KafkaError
from replication.assignment import UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from broker.network.request_context import RequestContext
    from broker.services import Services
    from replication.partition import Partition

ANY_EPOCH = -1

E = TypeVar("E")


class KnownLeader(NamedTuple):
    broker_id: int
    leader_epoch: int


def known_leader(services: Services, topic: str, index: int) -> KnownLeader | None:
    """The leader of a partition, for clients that sent a request to another broker (KIP-951). After an election the partition
    is updated first, then the image by UpdateMetadata: the one with the later epoch is used."""
    held, shown = services.partitions.find(topic, index), services.metadata.image.partition(topic, index)
    assigned = UNASSIGNED if held is None else held.assignment
    if assigned.leader_id >= 0 and (shown is None or assigned.leader_epoch > shown.leader_epoch):
        return KnownLeader(assigned.leader_id, assigned.leader_epoch)
    return None if shown is None else KnownLeader(shown.leader, shown.leader_epoch)


def endpoints_of(leaders: Collection[int], context: RequestContext, make: Callable[..., E]) -> list[E]:
    """The addresses of the brokers that a response names as leaders, where the client can reach them. `make` is the row's
    type in the message."""
    image, advertised = context.services.metadata.image, context.services.advertised
    endpoints: list[E] = []
    for broker in sorted(leaders):
        address = advertised.endpoint(image, broker, context.listener, context.local_address)
        if address is not None:
            rack = image.brokers[broker].rack
            endpoints.append(make(node_id=broker, host=address.host, port=address.port, rack=rack))
    return endpoints


def is_known(services: Services, topic: str, index: int) -> bool:
    """Whether the partition exists, here or on other brokers."""
    return (
        services.partitions.find(topic, index) is not None
        or services.metadata.image.partition(topic, index) is not None
    )


def missing_error(is_visible: bool) -> ErrorCode:
    """Return the error of a partition without a result: it does not exist, or the client may not know whether it does."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_visible else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def held_partition(services: Services, topic: str, index: int) -> Partition:
    """Return a partition of this broker. Raises UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR for one whose log directory is
    offline, or NOT_LEADER_OR_FOLLOWER for a partition of other brokers."""
    partition = services.partitions.find(topic, index)
    if partition is not None:
        partition.check_online()
        return partition
    if services.metadata.image.partition(topic, index) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{index}.")
    if services.partitions.is_offline(topic, index):
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {topic}-{index} is offline.")
    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not hold {topic}-{index}.")


def led_partition(services: Services, topic: str, index: int, current_leader_epoch: int = ANY_EPOCH) -> Partition:
    """Return a partition that this broker leads. Raises as `held_partition`, and FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER."""
    partition = held_partition(services, topic, index)
    partition.check_leader(current_leader_epoch)
    return partition
