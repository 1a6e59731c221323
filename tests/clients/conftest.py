from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(topics={"orders": 2}) as broker:
        yield broker.bootstrap_servers
