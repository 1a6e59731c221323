"""Our broker, with the newest level of every feature, answers as Apache Kafka 4.3.0 did.

A case that docs/differences.md lists must answer as recorded for us instead, and really differ. A case that our broker cannot
answer yet stands in `known_gaps.txt`: it must fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import newer, recording
from tests.differential.exceptions import NEWER_ANSWERS, differing_cases, free_texts
from tests.differential.normal import differences
from tests.differential.play import NEWER_CASES, PATIENCE_S, Case, ungrouped
from tests.differential.stages import Stages

newer.load_all()

KNOWN_GAPS = frozenset(Path(__file__).with_name("known_gaps.txt").read_text(encoding="utf-8").splitlines())
"""Case ids, one a line, for as long as what they ask for is being built."""
GAP_PATIENCE_S = 3.0
"""How long a known gap may take to show itself."""


def found_differences(case: Case, whose: str, stages: Stages, patience_s: float = PATIENCE_S) -> list[str]:
    expected = recording.answers_of(case, recording.NEWER[whose])
    ours = "--ours " * (whose != "kafka")
    assert expected, f"nothing is recorded: python -m tests.differential.record --newer {ours}'{case.id}'"
    actual = stages.play(case, patience_s=patience_s)
    is_free = free_texts(case.api.api_name)
    return [
        f"v{version}{line}"
        for version in case.versions
        for line in differences(expected.get(version), actual[version], free=is_free)
    ]


@pytest.mark.parametrize("case_id", sorted(NEWER_CASES.keys() - KNOWN_GAPS))
def test_answers_as_newer_kafka(case_id: str, barnabas: Stages) -> None:
    whose = "barnabas" if case_id in differing_cases(NEWER_ANSWERS) else "kafka"
    found = found_differences(NEWER_CASES[case_id], whose, barnabas)
    assert not found, f"{len(found)} differences from {whose}:\n" + "\n".join(found[:40])


@pytest.mark.parametrize("case_id", sorted(KNOWN_GAPS))
def test_a_known_gap_is_one(case_id: str, barnabas: Stages) -> None:
    try:
        found = found_differences(NEWER_CASES[case_id], "kafka", barnabas, GAP_PATIENCE_S)
    except AssertionError:  # a request that only prepares was refused
        return
    assert found, "the case passes: drop its line from known_gaps.txt"


def test_every_case_is_recorded_in_every_version() -> None:
    for api_name in sorted({case.api.api_name for case in NEWER_CASES.values()}):
        recorded = recording.load(api_name, recording.NEWER["kafka"])
        cases = {case.name: case for case in NEWER_CASES.values() if case.api.api_name == api_name}
        assert recorded.keys() == cases.keys()
        for name, case in cases.items():
            assert tuple(sorted(ungrouped(recorded[name]["answers"]))) == case.versions, case.id


@pytest.mark.parametrize("case_id", sorted(differing_cases(NEWER_ANSWERS)))
def test_a_listed_difference_is_one(case_id: str) -> None:
    assert case_id in NEWER_CASES, "the case is gone: drop its line from docs/differences.md"
    kafka, ours = (recording.answers_of(NEWER_CASES[case_id], whose) for whose in recording.NEWER.values())
    assert any(differences(kafka[version], ours.get(version)) for version in kafka), "no difference any more"
