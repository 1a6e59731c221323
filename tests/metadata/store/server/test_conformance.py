"""The store's conformance suite, over our client and our server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.metadata.store.conformance import CASES, Case
from tests.metadata.store.server.world import connect_of, store_server
from tests.metadata.store.zookeeper_world import client_of


@pytest.mark.parametrize("chroot", ["", "/a/b"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_conformance(tmp_path: Path, case: Case, chroot: str) -> None:
    async with store_server(tmp_path) as server, client_of(connect_of(server) + chroot) as client:
        await case(client.store)
