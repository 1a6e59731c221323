"""Acknowledgements as members send them: their form, and which state a type leads to. Pure.

A batch of acknowledgements has one type for all of its offsets, or one type an offset.

Rules: the form is checked before a share partition sees it (`check_form`): one wrong batch refuses all of a partition's. The
batches of a partition ascend; they may meet in one offset, as in Kafka.
Source: KIP-932, KIP-1222; Kafka KafkaApis.validateAcknowledgementBatches and SharePartition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import AcknowledgeType, DeliveryState

STATE_OF_TYPE = {
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: DeliveryState.AVAILABLE,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
}
"""All but RENEW, which changes no state."""
# Several times as many as a member can have acquired in one partition: `group.share.max.partition.max.record.locks` is at most
# 10 000.
BATCHES_MAX = 100_000


class AckBatch(NamedTuple):
    """What a member says of offsets `first` to `last`, both included: one type, or one an offset."""

    first: int
    last: int
    types: Sequence[int]


def check_form(batches: Sequence[AckBatch], *, can_renew: bool, is_renew: bool) -> None:
    """Check the batches of one partition. `can_renew`: the version of the request has the type RENEW; `is_renew`: the request
    says that it contains some.

    Raises: KafkaError INVALID_REQUEST.
    """
    highest = AcknowledgeType.RENEW if can_renew else AcknowledgeType.REJECT
    previous_last = -1
    if len(batches) > BATCHES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not is_renew:
        highest = min(highest, AcknowledgeType.REJECT)
    for first, last, types in batches:
        count = len(types)
        if (
            first > last
            or first < previous_last
            or not count
            or (count > 1 and count != last - first + 1)
            or not 0 <= min(types) <= max(types) <= highest
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        previous_last = last


def ranges_of_types(batch: AckBatch) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """Yield neighbouring offsets of one type, as first and last offset.

    Raises: KafkaError INVALID_REQUEST for a type that is none, or another number of types than of offsets.
    """
    first, last, types = batch
    try:
        if types and types.count(types[0]) == len(types):
            if len(types) in (1, last - first + 1):
                yield first, last, AcknowledgeType(types[0])
                return
        elif len(types) == last - first + 1:
            for number, group in groupby(types):
                count = sum(1 for _ in group)
                yield first, first + count - 1, AcknowledgeType(number)
                first += count
            return
    except ValueError:
        pass  # a number that is no type
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {[int(number) for number in types]}")
