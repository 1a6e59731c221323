"""The recording still is what a live Apache Kafka 3.9.1 answers."""

from __future__ import annotations

import pytest

from tests.differential import recording
from tests.differential.cases import load_all
from tests.differential.normal import differences
from tests.differential.play import CASES, play
from tests.oracle.kafka import ApacheKafka

load_all()


@pytest.mark.oracle
@pytest.mark.parametrize("case_id", sorted(CASES))
def test_recording_is_true(case_id: str, apache_kafka: ApacheKafka) -> None:
    case = CASES[case_id]
    expected = recording.answers_of(case)
    actual = play(case, "127.0.0.1", apache_kafka.port)
    found = [
        f"v{version}{line}" for version in case.versions for line in differences(expected.get(version), actual[version])
    ]
    assert not found, "\n".join(found[:40])
