"""Logs the partitions that have no leader: a warning for each, but one line for those whose brokers are asked to stop.

Rules: no state and no decision. Nobody is warned when a broker stops in order (ControlledShutdown) and leads a partition of
which no replica's broker stays, or of anything that happens while every broker of the cluster stops.
Source: none in Kafka, which logs a failed election for each.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.controller_context import ControllerContext
    from protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

LOGGED_FAILURES = 10  # of one step: thousands of partitions may fail for one reason


def log_leaderless(
    context: ControllerContext, failures: Mapping[TopicPartition, str], *, for_shutdown: bool = False
) -> None:
    """Log why partitions have got no leader. `for_shutdown`: their broker has asked to stop, and leads them until it does."""
    if not failures:
        return
    all_stop = bool(context.live_brokers) and context.live_brokers.keys() <= context.shutting_down | context.stopping
    unexpected = {
        key: reason
        for key, reason in failures.items()
        if not all_stop and not (for_shutdown and not any(map(context.is_live, context.assignment(key).replicas)))
    }
    for (name, partition), reason in islice(unexpected.items(), LOGGED_FAILURES):
        logger.warning("partition without leader: topic=%s partition=%d reason=%s", name, partition, reason)
    if len(unexpected) > LOGGED_FAILURES:
        logger.warning("further partitions without leader: partitions=%d", len(unexpected) - LOGGED_FAILURES)
    if len(unexpected) < len(failures):
        logger.info(
            "partitions stop with their brokers: partitions=%d example=%s-%d",
            len(failures) - len(unexpected), *next(key for key in failures if key not in unexpected),
        )  # fmt: skip
