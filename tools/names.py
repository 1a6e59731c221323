"""The commands by name, with a line about each. Imports nothing, because every start of the broker reads it."""

from __future__ import annotations

COMMANDS = {
    "topics": "list, describe, create, alter and delete topics, show offsets",
    "configs": "describe and alter settings of topics and brokers",
    "groups": "list, describe with lag, reset and delete consumer groups",
    "produce": "write lines of standard input to a topic",
    "consume": "print records of a topic",
    "find": "find records by key, header or content",
    "partitions": "move replicas, elect leaders",
    "balance": "give every broker its share of replicas, leaders, bytes and load",
    "transactions": "list, describe and abort transactions",
    "acls": "list, add and remove ACLs",
    "quotas": "list and alter quotas of users, clients and addresses",
    "records": "delete records before an offset",
    "perf": "measure how fast a cluster takes records and delivers them",
    "verify": "check that every acknowledged record is there",
    "brokers": "list brokers, their log directories and their API versions",
    "cluster": "tell what is wrong with a cluster, and what to do",
}
ALIASES = {name.removesuffix("s"): name for name in (*COMMANDS, "users", "settings") if name.endswith("s")}
"""Other names, which no help shows, also of commands of the server: `topic list` is `topics list`."""
