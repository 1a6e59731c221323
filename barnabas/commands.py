"""The command line: all commands, with a line about each and the extra that they need. It imports none of them.

Commands of the server need Linux; those for any cluster run wherever Python has POSIX signals.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from barnabas import __version__
from barnabas.supported import system_refusal
from runtime.command_line.extras import CLI, SPARK, WEB
from runtime.command_line.group import CommandLine, Entry, run

SERVER, CLUSTERS, JOBS = "Commands of the server", "Commands for any Kafka cluster", "Spark"
TABLE = {
    "start": Entry("barnabas.start", "run a broker, or several on this machine", SERVER),
    "store": Entry("barnabas.store.command", "run a store server, which speaks the ZooKeeper protocol", SERVER),
    "settings": Entry(
        "broker.commands.settings",
        "list settings with the values that a broker would start with, or check a file",
        SERVER,
    ),
    "users": Entry("broker.commands.users", "create, list and delete users who log in by SASL SCRAM", SERVER),
    "dump-log": Entry("broker.commands.dump_log", "print and verify the files of a log", SERVER),
    "log": Entry("broker.commands.log_find", "find records in the files of a data directory", SERVER),
    "topics": Entry("tools.commands.topics", "list, describe, create, alter and delete topics, show offsets", CLUSTERS),
    "configs": Entry("tools.commands.configs", "describe and alter settings of topics and brokers", CLUSTERS),
    "groups": Entry("tools.commands.groups", "list, describe with lag, reset and delete consumer groups", CLUSTERS),
    "produce": Entry("tools.commands.produce", "write lines of standard input to a topic", CLUSTERS, CLI),
    "consume": Entry("tools.commands.consume", "print records of a topic", CLUSTERS, CLI),
    "find": Entry("tools.commands.find", "find records by key, header or content", CLUSTERS, CLI),
    "trace": Entry(
        "relay.commands.trace",
        "tell where a message is stored, who has read past it, and which copies there are",
        CLUSTERS,
    ),
    "delayed": Entry("relay.commands.delayed", "list, show and cancel messages that a relay delivers later", CLUSTERS),
    "dlq": Entry("relay.commands.dlq", "list, show, bring back and delete dead letters", CLUSTERS),
    "partitions": Entry("tools.commands.partitions", "move replicas, elect leaders", CLUSTERS),
    "balance": Entry(
        "tools.commands.balance", "give every broker its share of replicas, leaders, bytes and load", CLUSTERS
    ),
    "transactions": Entry("tools.commands.transactions", "list, describe and abort transactions", CLUSTERS),
    "acls": Entry("tools.commands.acls", "list, add and remove ACLs", CLUSTERS),
    "quotas": Entry("tools.commands.quotas", "list and alter quotas of users, clients and addresses", CLUSTERS),
    "records": Entry("tools.commands.records", "delete records before an offset", CLUSTERS),
    "perf": Entry("tools.commands.perf", "measure how fast a cluster takes records and delivers them", CLUSTERS, CLI),
    "verify": Entry("tools.commands.verify", "check that every acknowledged record is there", CLUSTERS, CLI),
    "features": Entry("tools.commands.features", "describe and change the feature levels of a cluster", CLUSTERS),
    "brokers": Entry("tools.commands.brokers", "list brokers, their log directories and their API versions", CLUSTERS),
    "cluster": Entry("tools.commands.cluster", "tell what is wrong with a cluster, and what to do", CLUSTERS),
    "web": Entry("web.command", "serve a page about a cluster, and HTTP to read and write records", CLUSTERS, WEB),
    "relay": Entry("relay.command", "bring records to their targets when they are due, by rules", CLUSTERS),
    "pipeline": Entry("barnabas.pipeline.command", "run Spark jobs on topics", JOBS, SPARK),
}
ALIASES = {name.removesuffix("s"): name for name in TABLE if name.endswith("s")} | {"pipelines": "pipeline"}
"""Other names: `topic list` is `topics list`."""

root = CommandLine(
    "barnabas", TABLE, aliases=ALIASES, refused={SERVER: system_refusal(sys.platform)},
    help="Run a broker that is compatible with Apache Kafka, and administer clusters of both.",
)  # fmt: skip
click.version_option(__version__, message="%(prog)s %(version)s")(root)


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return its exit code."""
    return run(root, arguments)
