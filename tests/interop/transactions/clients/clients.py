"""Every client library that the tests of transactions are run with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.interop.clients.java_clients import JavaClients
from tests.interop.conftest import need_java
from tests.interop.transactions.clients.aio import AiokafkaClient
from tests.interop.transactions.clients.confluent import ConfluentClient
from tests.interop.transactions.clients.interface import Client
from tests.interop.transactions.clients.java_driven import JavaClient
from tests.interop.transactions.clients.kafka_python import KafkaPythonClient
from tests.interop.transactions.clients.servers import SERVERS

OLDER_JAVA = "3.9.1"
NEWER_JAVA = "4.3.0"
JAVA_CLIENTS = (f"Java {OLDER_JAVA}", f"Java {NEWER_JAVA}")
GROUP_CLIENTS = ("confluent-kafka", "kafka-python", *JAVA_CLIENTS)
"""Those that send their generation with the offsets of a transaction."""
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", *JAVA_CLIENTS)


def pairs(clients: Sequence[str], short: Mapping[str, Sequence[str]]) -> list[ParameterSet]:
    """Every client with every server. What `short` does not name for a server is in the long form only."""
    return [
        pytest.param(
            one, client, id=f"{client} on {one}", marks=() if client in short.get(one, ()) else pytest.mark.long
        )
        for one in SERVERS
        for client in clients
    ]


class Clients:
    """What makes clients by name. A JVM is started when it is first needed, and serves all that come after."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._jvms: dict[str, JavaClients] = {}

    def make(self, name: str, bootstrap: str) -> Client:
        if name == "confluent-kafka":
            return ConfluentClient(bootstrap)
        if name == "kafka-python":
            return KafkaPythonClient(bootstrap)
        if name == "aiokafka":
            return AiokafkaClient(bootstrap)
        need_java()
        version = name.removeprefix("Java ")
        if version not in self._jvms:
            jvm = JavaClients(version, self._folder / f"java-{version}.log")
            self._jvms[version] = self._stack.enter_context(jvm)
        return JavaClient(self._jvms[version], version, bootstrap)


@contextmanager
def all_clients() -> Iterator[Clients]:
    with tempfile.TemporaryDirectory(prefix="clients-") as folder, ExitStack() as stack:
        yield Clients(stack, Path(folder))
