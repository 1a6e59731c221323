"""Our broker answers as Apache Kafka 3.9.1 did, case by case and version by version.

A case that docs/differences.md lists must answer as recorded for us instead, and really differ.
"""

from __future__ import annotations

import pytest

from tests.differential import recording
from tests.differential.cases import load_all
from tests.differential.exceptions import differing_cases
from tests.differential.normal import differences
from tests.differential.play import CASES, Case, play
from tests.oracle.barnabas import Barnabas

load_all()


@pytest.mark.parametrize("case_id", sorted(CASES))
def test_answers_as_apache_kafka(case_id: str, barnabas_broker: Barnabas) -> None:
    case = CASES[case_id]
    whose = "barnabas" if case_id in differing_cases() else "kafka"
    expected = recording.answers_of(case, whose)
    assert expected, (
        f"nothing is recorded: python -m tests.differential.record {'--ours ' * (whose != 'kafka')}'{case_id}'"
    )
    found = _differences(case, expected, barnabas_broker)
    assert not found, f"{len(found)} differences from {whose}:\n" + "\n".join(found[:40])


@pytest.mark.parametrize("case_id", sorted(differing_cases()))
def test_a_listed_difference_is_one(case_id: str) -> None:
    assert case_id in CASES, "the case is gone: drop its line from docs/differences.md"
    kafka, ours = (recording.answers_of(CASES[case_id], whose) for whose in ("kafka", "barnabas"))
    same = all(not differences(kafka[version], ours.get(version)) for version in kafka)
    assert not same, "no difference any more: drop its line from docs/differences.md and its recording"


def _differences(case: Case, expected: dict[int, list[object]], broker: Barnabas) -> list[str]:
    actual = play(case, "127.0.0.1", broker.port)
    return [
        f"v{version}{line}" for version in case.versions for line in differences(expected.get(version), actual[version])
    ]
