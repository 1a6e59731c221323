"""A broker for the tests of messages, and what they write and read there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running
