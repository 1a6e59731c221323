"""The recording still is what a live Apache Kafka 3.9.1 answers.

Some of its answers depend on which of its threads comes first: a fetch that is still being read when the record arrives
that it would have waited for tells the high watermark of before. A recording is therefore refuted by what Apache Kafka
answers in every one of three takes, not by one.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.differential import recording
from tests.differential.cases import load_all
from tests.differential.normal import differences
from tests.differential.play import CASES, TAKES, Case
from tests.differential.stages import Stages

load_all()


def refuted(case: Case, answers: dict[int, list[object]]) -> dict[int, list[str]]:
    """Where `answers` differ from the recording, by version."""
    expected = recording.answers_of(case)
    lines = {version: differences(expected.get(version), answers[version]) for version in case.versions}
    return {version: some for version, some in lines.items() if some}


@pytest.mark.oracle
@pytest.mark.parametrize("case_id", sorted(CASES))
def test_recording_is_true(case_id: str, apache_kafka: Stages) -> None:
    case = CASES[case_id]
    for take in range(len(TAKES)):
        found = refuted(case, apache_kafka.play(case, take))
        if not found:
            return
        case = dataclasses.replace(case, versions=tuple(found))
    text = "\n".join(f"v{version}{line}" for version, lines in found.items() for line in lines[:20])
    pytest.fail(text)
