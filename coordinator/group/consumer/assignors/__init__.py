"""Server-side assignors of consumer groups: which member owns which partitions.

contract    what an assignor is asked and what it answers
uniform     all members own the same number of partitions, give or take one, and keep what they own
range       of every topic, each member owns a range of partitions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.group.assigned.assignor import Assignor
from coordinator.group.consumer.assignors.range import RANGE
from coordinator.group.consumer.assignors.uniform import UNIFORM

ASSIGNORS: Final[Mapping[str, Assignor]] = {each.name: each for each in (UNIFORM, RANGE)}
"""By the names that `group.consumer.assignors` knows; the first is Kafka's default."""
