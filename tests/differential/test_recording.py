"""Our broker answers as Apache Kafka 3.9.1 did, case by case and version by version.

A case that docs/differences.md lists must answer as recorded for us instead, and really differ.
"""

from __future__ import annotations

import pytest

from broker.network.routes import CONTROL_KEYS
from tests.differential import recording
from tests.differential.cases import load_all
from tests.differential.exceptions import differing_cases, free_texts
from tests.differential.normal import differences, every_text_is_free, no_text_is_free
from tests.differential.play import CASES, CONTROLLED, Case
from tests.differential.stages import Stages

load_all()


NEEDS_ZOOKEEPER = sorted(case.id for case in CASES.values() if case.stage == CONTROLLED)


@pytest.mark.parametrize("case_id", sorted(CASES.keys() - NEEDS_ZOOKEEPER))
def test_answers_as_apache_kafka(case_id: str, barnabas: Stages) -> None:
    _check(CASES[case_id], barnabas)


@pytest.mark.oracle
@pytest.mark.parametrize("case_id", NEEDS_ZOOKEEPER)
def test_answers_a_controller_as_apache_kafka(case_id: str, need_java: None, barnabas: Stages) -> None:
    _check(CASES[case_id], barnabas)


def _check(case: Case, stages: Stages) -> None:
    whose = "barnabas" if case.id in differing_cases() else "kafka"
    expected = recording.answers_of(case, whose)
    assert expected, (
        f"nothing is recorded: python -m tests.differential.record {'--ours ' * (whose != 'kafka')}'{case.id}'"
    )
    actual = stages.play(case)
    # Cases of the controller's requests also ask for records, in the same session.
    asked = (case.api.api_name, "Produce") if case.api.api_key in CONTROL_KEYS else (case.api.api_name,)
    free = free_texts(*asked) if whose == "kafka" else no_text_is_free
    found = [
        f"v{version}{line}"
        for version in case.versions
        for line in differences(expected.get(version), actual[version], free=free)
    ]
    assert not found, f"{len(found)} differences from {whose}:\n" + "\n".join(found[:40])


@pytest.mark.parametrize("case_id", sorted(differing_cases()))
def test_a_listed_difference_is_one(case_id: str) -> None:
    assert case_id in CASES, "the case is gone: drop its line from docs/differences.md"
    kafka, ours = (recording.answers_of(CASES[case_id], whose) for whose in ("kafka", "barnabas"))
    same = all(not differences(kafka[version], ours.get(version), free=every_text_is_free) for version in kafka)
    assert not same, "no difference any more: drop its line from docs/differences.md and its recording"
