"""Three brokers of ours answer administration as three of Apache Kafka 3.9.1 did, scenario by scenario: everybody there,
leaders and replicas on their way, one broker hung, one down, and back.

What docs/differences.md lists ("Answers of a cluster") must really differ.
"""

from __future__ import annotations

import pytest

from tests.differential.cluster_run import Answers, ClusterRun, load, recorded
from tests.differential.cluster_scenarios import SCENARIOS
from tests.differential.exceptions import differing_answers, free_texts
from tests.differential.normal import differences
from tests.oracle.cluster import KAFKA, OURS

pytestmark = pytest.mark.timeout(900)


def played(kind: str) -> dict[str, Answers]:
    """One scenario goes on from the one before, so that all are played at once, in order."""
    answers: dict[str, Answers] = {}
    with ClusterRun(kind) as run:
        for name, play in SCENARIOS.items():
            play(run)
            answers[name] = run.take()
    return answers


@pytest.fixture(scope="module")
def ours(need_java: None) -> dict[str, Answers]:
    return played(OURS)


@pytest.fixture(scope="module")
def kafkas(need_java: None) -> dict[str, Answers]:
    return played(KAFKA)


def found(scenario: str, answers: Answers) -> dict[str, list[str]]:
    """Where answers differ from those that are recorded, by what was asked."""
    expected = load(scenario)
    assert expected, f"{scenario} is not recorded: python -m tests.differential.record_cluster_admin"
    assert answers.keys() == expected.keys()
    lines = {what: differences(expected[what], answers[what], free=free_texts(what.split()[0])) for what in expected}
    return {what: some for what, some in lines.items() if some}


@pytest.mark.oracle
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_answers_as_apache_kafka(scenario: str, ours: dict[str, Answers]) -> None:
    differing = found(scenario, ours[scenario])
    allowed = {what for where, what in differing_answers() if where == scenario}
    text = "\n".join(line for what in differing.keys() - allowed for line in (what, *differing[what][:20]))
    assert not text, text
    assert not allowed - differing.keys(), "no difference any more: drop its line from docs/differences.md"


@pytest.mark.oracle
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recording_is_true(scenario: str, kafkas: dict[str, Answers]) -> None:
    differing = found(scenario, kafkas[scenario])
    assert not differing, "\n".join(line for what, lines in differing.items() for line in (what, *lines[:20]))


def test_every_scenario_is_recorded() -> None:
    assert list(recorded()) == sorted(SCENARIOS)


def test_every_listed_answer_exists() -> None:
    for scenario, what in differing_answers():
        assert what in load(scenario), f"{scenario}: {what} is not asked"
