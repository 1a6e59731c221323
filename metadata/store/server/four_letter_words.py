"""Four-letter words: what an operator or a probe asks a server over a bare connection. Pure.

    ruok srvr stat cons conf mntr   are answered
    the others of ZooKeeper         are answered as there when they are not in its list `4lw.commands.whitelist`

Rules: pure. A word is the first four bytes of a connection; read as the length of a frame it would be too long. The connection
is closed behind the answer.
Source: ZooKeeper org.apache.zookeeper.server.command, ServerStats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from metadata.store.node_map import Nodes
from metadata.store.server.client import Client

WORD_BYTES: Final = 4
ANSWERED: Final = frozenset({b"ruok", b"srvr", b"stat", b"cons", b"conf", b"mntr"})
KNOWN: Final = ANSWERED | {
    b"crst", b"dirs", b"dump", b"envi", b"gtmk", b"hash", b"icfg", b"isro", b"lsnp", b"orst", b"reqs", b"sidc", b"srst",
    b"stmk", b"wchc", b"wchp", b"wchs",
}  # fmt: skip
PROTOCOL_VERSION: Final = "3.8.4"
"""The ZooKeeper whose protocol is served: clients look at it."""


@dataclass(slots=True)
class Statistics:
    """What the server counts, since its start. Latencies are from the arrival of a request to its reply."""

    received_count: int = 0
    sent_count: int = 0
    latency_min_ms: int = 0
    latency_max_ms: int = 0
    latency_sum_ms: int = 0
    answered_count: int = 0

    def answered(self, latency_ms: int) -> None:
        self.latency_min_ms = min(self.latency_min_ms, latency_ms) if self.answered_count else latency_ms
        self.latency_max_ms = max(self.latency_max_ms, latency_ms)
        self.latency_sum_ms += latency_ms
        self.answered_count += 1

    @property
    def latency_mean_ms(self) -> float:
        return round(self.latency_sum_ms / self.answered_count, 4) if self.answered_count else 0.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server as it is now. `settings` are lines of `conf`."""

    release: str
    zxid: int
    watches_count: int
    sessions_count: int
    nodes: Nodes
    uptime_ms: int
    statistics: Statistics
    clients: Sequence[Client]
    settings: Sequence[tuple[str, object]] = field(default=())

    @property
    def version(self) -> str:
        return f"{PROTOCOL_VERSION}-barnabas-{self.release}"

    @property
    def outstanding_count(self) -> int:
        return sum(client.outstanding_count for client in self.clients)


def answer(word: bytes, facts: ServerFacts) -> bytes:
    """Return the answer to one of `KNOWN`."""
    match word:
        case b"ruok":
            return b"imok"
        case b"srvr":
            return _lines(_server(facts))
        case b"stat":
            first, *others = _server(facts)
            clients = [f" {_connection(each)}" for each in facts.clients]
            return _lines([first, "Clients:", *clients, "", *others])
        case b"cons":
            return _lines([*(f" {_connection(each)}" for each in facts.clients), ""])
        case b"conf":
            return _lines(f"{name}={value}" for name, value in facts.settings)
        case b"mntr":
            return _lines(f"zk_{name}\t{value}" for name, value in _monitored(facts))
    return _lines([f"{word.decode('ascii')} is not executed because it is not in the whitelist."])


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _server(facts: ServerFacts) -> list[str]:
    counted = facts.statistics
    return [
        f"Zookeeper version: {facts.version}",
        f"Latency min/avg/max: {counted.latency_min_ms}/{counted.latency_mean_ms}/{counted.latency_max_ms}",
        f"Received: {counted.received_count}",
        f"Sent: {counted.sent_count}",
        f"Connections: {len(facts.clients)}",
        f"Outstanding: {facts.outstanding_count}",
        f"Zxid: {facts.zxid:#x}",
        "Mode: standalone",
        f"Node count: {len(facts.nodes)}",
    ]


def _connection(client: Client) -> str:
    counts = f"queued={client.outstanding_count},recved={client.received_count},sent={client.sent_count}"
    if not client.session_id:
        return f"/{client.address}[0]({counts})"
    return f"/{client.address}[1]({counts},sid={client.session_id & 0xFFFFFFFFFFFFFFFF:#x},to={client.timeout_ms})"


def _monitored(facts: ServerFacts) -> list[tuple[str, object]]:
    counted = facts.statistics
    return [
        ("version", facts.version),
        ("server_state", "standalone"),
        ("avg_latency", counted.latency_mean_ms),
        ("max_latency", counted.latency_max_ms),
        ("min_latency", counted.latency_min_ms),
        ("packets_received", counted.received_count),
        ("packets_sent", counted.sent_count),
        ("num_alive_connections", len(facts.clients)),
        ("outstanding_requests", facts.outstanding_count),
        ("znode_count", len(facts.nodes)),
        ("watch_count", facts.watches_count),
        ("ephemerals_count", len(facts.nodes.ephemerals)),
        ("approximate_data_size", sum(len(path) + len(node.data) for path, node in facts.nodes.items())),
        ("global_sessions", facts.sessions_count),
        ("local_sessions", 0),
        ("uptime", facts.uptime_ms),
    ]
