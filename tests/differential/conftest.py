from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.stages import Stages
from tests.oracle import java


@pytest.fixture(scope="session")
def barnabas() -> Iterator[Stages]:
    """Our broker, with the settings that the recording was made with."""
    with Stages("barnabas") as stages:
        yield stages


@pytest.fixture(scope="session")
def apache_kafka(need_java: None) -> Iterator[Stages]:
    with Stages("kafka") as stages:
        yield stages


@pytest.fixture(scope="session")
def need_java() -> None:
    """Skip without Java and Maven; on a build server let what follows fail."""
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
