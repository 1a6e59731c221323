"""A client and a server by their names, which a test's parameters `client_name` and `server_name` are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.transactions.clients.clients import Clients, all_clients
from tests.interop.transactions.clients.interface import Client
from tests.interop.transactions.clients.servers import Servers, all_servers


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with all_clients() as made:
        yield made


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with all_servers() as made:
        yield made


@pytest.fixture
def bootstrap(servers: Servers, server_name: str) -> str:
    return servers.bootstrap(server_name)


@pytest.fixture
def client(client_name: str, clients: Clients, bootstrap: str) -> Iterator[Client]:
    made = clients.make(client_name, bootstrap)
    yield made
    made.close()
