"""Apache Kafka's command line tools, run against any broker."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.oracle import java
from tests.oracle.process import watch_over

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
    "features": "org.apache.kafka.tools.FeatureCommand",
}
"""By the name of the script that Apache Kafka ships, without `kafka-` and `.sh`."""
NEWER_MAIN_CLASSES = {
    **MAIN_CLASSES,
    "acls": "org.apache.kafka.tools.AclCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
"""Those of the tools of 4.3.0."""


_LOGGED = re.compile(r"^\[\d{4}-\d\d-\d\d [^]]*\] [A-Z]+ .*\n", re.MULTILINE)


def main_class(tool: str, release: java.Release) -> str:
    return (NEWER_MAIN_CLASSES if release is java.KRAFT_MODE else MAIN_CLASSES)[tool]


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
    release: java.Release = java.ZOOKEEPER_MODE,
) -> str:
    """What the tool wrote, standard error behind standard output. Raises ToolError unless `check` is off."""
    command = java.command(main_class(tool, release), arguments, options=options, release=release)
    result = subprocess.run(
        command, input=standard_input or "", capture_output=True, text=True, timeout=timeout_s, check=False
    )
    output = result.stdout + result.stderr
    if check and result.returncode != 0:
        raise ToolError(f"{tool} {' '.join(arguments)} ended with {result.returncode}:\n{output}")
    return output


class ToolsJvm:
    """One JVM for many tools, one after the other: each but the first takes a fraction of a second."""

    def __init__(self, release: java.Release = java.ZOOKEEPER_MODE) -> None:
        self.release = release

    def __enter__(self) -> Self:
        options = (*java.QUICK_START, "-Dfile.encoding=UTF-8")
        command = java.command("", [], options=options, release=self.release)
        command[-1:] = [str(java.HERE / "RunTools.java")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )
        self._watch = watch_over(self._process.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._watch.kill()
        self._watch.communicate()

    def run(self, tool: str, *arguments: str, standard_input: str = "", timeout_s: float = 60, code: int = 0) -> str:
        """What the tool wrote, without lines of its log. Raises ToolError when it ends with another code, or not in time."""
        question = {"main": main_class(tool, self.release), "arguments": arguments, "input": standard_input}
        assert self._process.stdin is not None and self._process.stdout is not None
        limit = threading.Timer(timeout_s, self._process.kill)
        limit.start()
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            limit.cancel()
        if not line:
            raise ToolError(f"{tool} {' '.join(arguments)} did not end within {timeout_s:g} s")
        answer = json.loads(line)
        if answer["code"] != code:
            raise ToolError(f"{tool} {' '.join(arguments)} ended with {answer['code']}:\n{answer['output']}")
        return _LOGGED.sub("", answer["output"])
