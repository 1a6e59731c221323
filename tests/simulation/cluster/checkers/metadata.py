"""What every broker believes of the cluster: it never goes back, and in the end it is what the store says.

Within one life of a broker the epochs of a partition in its image, leader epoch and partition epoch, do not fall, while one
controller speaks. The next one begins with what was when it took over; a controller that has not heard of it may have told
its own broker what came later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from metadata.image import ClusterImage, TopicImage
from metadata.store.znodes import PartitionState
from protocol.topic_partition import TopicPartition


class MetadataChecker:
    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        # By broker: its life, the last image, and which controller has told of topics last.
        self._images: dict[int, tuple[int, ClusterImage, int]] = {}

    def on_published(self, broker_id: int, life: int, image: ClusterImage) -> None:
        known_life, known, teller = self._images.get(broker_id, (life, image, image.controller_id))
        if known_life == life and known.topics is image.topics:
            self._images[broker_id] = (life, image, teller)
            return
        self._images[broker_id] = (life, image, image.controller_id)
        if known_life != life or teller != image.controller_id:
            return
        for name, topic in image.topics.items():
            before = known.topics.get(name)
            if before is not None and before is not topic and before.topic_id == topic.topic_id:
                self._compare(broker_id, before, topic)

    def _compare(self, broker_id: int, before: TopicImage, after: TopicImage) -> None:
        for index, partition in after.partitions.items():
            known = before.partitions.get(index, partition)
            epochs, were = (
                (partition.leader_epoch, partition.partition_epoch),
                (known.leader_epoch, known.partition_epoch),
            )
            if epochs < were:
                self._report(
                    f"broker {broker_id} goes back: {after.name}-{index} was of leader and partition epoch {were}, "
                    f"now of {epochs}"
                )


def outdated(
    broker_id: int,
    image: ClusterImage,
    states: Mapping[TopicPartition, PartitionState],
    keys: Iterable[TopicPartition],
    live: set[int],
) -> Iterator[str]:
    """What the broker does not know yet, or not any more."""
    if set(image.brokers) != live:
        yield f"broker {broker_id} knows the brokers {sorted(image.brokers)}, registered are {sorted(live)}"
    for key in keys:
        state, known = states.get(key), image.partition(*key)
        if state is None:
            continue
        if known is None:
            yield f"broker {broker_id} does not know {key}"
        elif (known.leader, known.leader_epoch, set(known.isr)) != (state.leader, state.leader_epoch, set(state.isr)):
            yield (
                f"broker {broker_id} knows {key} with leader {known.leader}, epoch {known.leader_epoch}, "
                f"isr {list(known.isr)}, not {state.leader}, {state.leader_epoch}, {list(state.isr)}"
            )
