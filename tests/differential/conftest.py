from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.play import SETTINGS, warm_up
from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka


@pytest.fixture(scope="session")
def barnabas_broker() -> Iterator[Barnabas]:
    """Our broker, with the settings that the recording was made with."""
    with Barnabas(settings=SETTINGS) as broker:
        warm_up("127.0.0.1", broker.port)
        yield broker
        broker.kill()  # a clean stop would flush a thousand topics that nobody needs


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with ApacheKafka(settings=SETTINGS) as broker:
        warm_up("127.0.0.1", broker.port)
        yield broker
