"""The recordings still are what a live Apache Kafka 3.9.1, and for newer clients a live 4.3.0, answers.

Some of its answers depend on which of its threads comes first: a fetch that is still being read when the record arrives
that it would have waited for tells the high watermark of before. A recording is therefore refuted by what Apache Kafka
answers in every one of three takes, not by one.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.differential import cases, newer, recording
from tests.differential.normal import differences
from tests.differential.play import CASES, NEWER_CASES, TAKES, Case
from tests.differential.stages import Stages

cases.load_all()
newer.load_all()


def refuted(case: Case, answers: dict[int, list[object]], whose: str) -> dict[int, list[str]]:
    """Where `answers` differ from the recording, by version."""
    expected = recording.answers_of(case, whose)
    lines = {version: differences(expected.get(version), answers[version]) for version in case.versions}
    return {version: some for version, some in lines.items() if some}


@pytest.mark.oracle
@pytest.mark.parametrize("case_id", sorted(CASES))
def test_recording_is_true(case_id: str, apache_kafka: Stages) -> None:
    _ask_again(CASES[case_id], apache_kafka, "kafka")


@pytest.mark.oracle
@pytest.mark.parametrize("case_id", sorted(NEWER_CASES))
def test_recording_of_newer_kafka_is_true(case_id: str, apache_kafka: Stages) -> None:
    _ask_again(NEWER_CASES[case_id], apache_kafka, recording.NEWER["kafka"])


def _ask_again(case: Case, apache_kafka: Stages, whose: str) -> None:
    for take in range(len(TAKES)):
        found = refuted(case, apache_kafka.play(case, take), whose)
        if not found:
            return
        case = dataclasses.replace(case, versions=tuple(found))
    text = "\n".join(f"v{version}{line}" for version, lines in found.items() for line in lines[:20])
    pytest.fail(text)
