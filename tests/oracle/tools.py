"""Apache Kafka's command line tools, run against any broker."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tests.oracle import java

MAIN_CLASSES = {
    "acls": "kafka.admin.AclCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "console-producer": "kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "dump-log": "kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
}
"""By the name of the script that Apache Kafka ships, without `kafka-` and `.sh`."""


class ToolError(AssertionError):
    """A tool ended with another code than 0."""


def run(
    tool: str,
    arguments: Sequence[str],
    *,
    standard_input: str | None = None,
    timeout_s: float = 120,
    check: bool = True,
    options: Sequence[str] = java.QUICK_START,
) -> str:
    """What the tool wrote, standard error behind standard output. Raises ToolError unless `check` is off."""
    command = java.command(MAIN_CLASSES[tool], arguments, options=options)
    result = subprocess.run(
        command, input=standard_input or "", capture_output=True, text=True, timeout=timeout_s, check=False
    )
    output = result.stdout + result.stderr
    if check and result.returncode != 0:
        raise ToolError(f"{tool} {' '.join(arguments)} ended with {result.returncode}:\n{output}")
    return output
