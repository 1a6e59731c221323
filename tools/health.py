"""What is wrong with a cluster, from what it says of itself. Pure.

Source: the alerts of Kafka's operations guide: offline partitions, under-replicated partitions, no controller.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionView:
    """`leader` is None for a partition without one."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What one look at the metadata has shown. `controller` is None while there is none."""

    brokers: tuple[int, ...]
    controller: int | None
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """`subject` is what it is about, `next_step` the command that helps or tells more."""

    subject: str
    cause: str
    next_step: str

    def row(self) -> dict[str, str]:
        return {"subject": self.subject, "cause": self.cause, "next": self.next_step}


def problems(view: ClusterView) -> list[Problem]:
    """Return what is wrong, the worst first."""
    found = []
    if view.controller is None:
        found.append(
            Problem("controller", "no broker is controller: topics are not created and no leader is elected",
                    "check that ZooKeeper answers and that brokers have a session: their log says so")
        )  # fmt: skip
    missing = _missing_brokers(view)
    for partition in view.partitions:
        if partition.leader is None:
            others = ", ".join(map(str, partition.replicas))
            found.append(
                Problem(f"partition {partition.name}", f"it has no leader; its replicas are on brokers {others}",
                        f"start the brokers in {list(partition.isr) or list(partition.replicas)}")
            )  # fmt: skip
    for broker, partitions in sorted(missing.items()):
        found.append(
            Problem(f"broker {broker}", f"it is gone, and {len(partitions)} partitions have a replica on it "
                    f"({', '.join(each.name for each in partitions[:3])}{' ...' if len(partitions) > 3 else ''})",
                    f"start broker {broker}, or move its replicas: `barnabas partitions reassign`")
        )  # fmt: skip
    for partition in view.partitions:
        lagging = [each for each in partition.replicas if each not in partition.isr and each not in missing]
        if partition.leader is not None and lagging:
            found.append(
                Problem(f"partition {partition.name}", f"replicas on brokers {', '.join(map(str, lagging))} are behind",
                        "wait until they have caught up; if that takes long, look at the log and the disk of these brokers")
            )  # fmt: skip
    return found


def _missing_brokers(view: ClusterView) -> dict[int, list[PartitionView]]:
    """Return the brokers that have replicas and are not in the cluster."""
    missing: dict[int, list[PartitionView]] = defaultdict(list)
    for partition in view.partitions:
        for broker in partition.replicas:
            if broker not in view.brokers:
                missing[broker].append(partition)
    return missing
