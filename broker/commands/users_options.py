"""The options of `barnabas users`; the command itself is in `broker.commands.users_command`.

Rules: imports only argparse, since every start of a broker imports this module. A password is never an argument: others can
read those of a process.
"""

from __future__ import annotations

import argparse

from broker.commands.log_options import Commands

USERS = "users"
SCRAM_NAMES = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_EPILOG = """A cluster is found by one of its brokers, any Kafka's, or by its store, in which users may be before the first
start: a ZooKeeper, or the data directory of a standalone broker that does not run. --command-config and --profile
have settings with Apache Kafka's names: of a client (security.protocol, sasl.mechanism, sasl.jaas.config,
ssl.truststore.location in PEM), or with --zookeeper of a broker (zookeeper.*)."""


def add_users_command(commands: Commands) -> None:
    users = commands.add_parser(
        USERS, help="create, list and delete users who log in by SASL SCRAM", allow_abbrev=False, epilog=_EPILOG
    )
    actions = users.add_subparsers(dest="users_command", metavar="command", required=True)
    create = actions.add_parser(
        "create", aliases=["alter"], help="set the password of a user", allow_abbrev=False, epilog=_EPILOG
    )
    create.add_argument("name", help="the user")
    create.add_argument("--mechanism", required=True, choices=SCRAM_NAMES)
    create.add_argument(
        "--password-file", required=True, metavar="FILE", help="holds the password; - is the standard input"
    )
    create.add_argument("--iterations", type=int, default=4096, help="of the hash, 4096 to 16384 (default: 4096)")
    listing = actions.add_parser("list", help="list users, without passwords", allow_abbrev=False, epilog=_EPILOG)
    describe = actions.add_parser(
        "describe", help="show one user, without passwords", allow_abbrev=False, epilog=_EPILOG
    )
    describe.add_argument("name", help="the user")
    delete = actions.add_parser(
        "delete", help="remove the passwords of a user, a dry run without --execute", allow_abbrev=False, epilog=_EPILOG
    )
    delete.add_argument("name", help="the user")
    delete.add_argument("--mechanism", choices=SCRAM_NAMES, help="only the password of this mechanism")
    delete.add_argument("--execute", action="store_true", help="remove them; without it, they are only shown")
    for action in (create, listing, describe, delete):
        _add_cluster(action)


def _add_cluster(action: argparse.ArgumentParser) -> None:
    cluster = action.add_mutually_exclusive_group()
    cluster.add_argument(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT[,...]",
        help="brokers to ask first (default: localhost:9092)",
    )
    cluster.add_argument("--zookeeper", metavar="HOST:PORT[/PATH]", help="the ZooKeeper of a cluster")
    cluster.add_argument("--data-dir", metavar="DIR", help="the first of log.dirs of a standalone broker")
    action.add_argument(
        "--command-config", "--config", dest="config", metavar="FILE", help="settings for the connection"
    )
    action.add_argument("--profile", metavar="NAME", help="a file in ~/.config/barnabas (default: BARNABAS_PROFILE)")
    action.add_argument("--json", action="store_true", help="print JSON")
