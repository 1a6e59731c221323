"""What `barnabas cluster health` prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tools.health.checks import CHECKS, Finding
from tools.health.screen import SHOWN_OF_A_CHECK, document, is_healthy, lines
from tools.health.since import with_first_seen
from tools.health.view import ClusterView, Problem, Severity, Shared, Since

VIEW = ClusterView(brokers={}, controller=None, partitions=(), now_ms=1_700_000_000_000, cluster_id="c-1")
ERROR = Finding(
    "broker gone", Problem(Severity.ERROR, "broker 3", "it is gone", "start broker 3", Since(0, "seen by broker 1"))
)
NOTICE = Finding("leaders uneven", Problem(Severity.NOTICE, "broker 1", "uneven", "barnabas partitions elect"))


def test_a_problem_has_its_object_cause_time_and_next_command() -> None:
    assert list(lines(VIEW, [ERROR, NOTICE])) == [
        "cluster c-1: unhealthy, 1 error, 1 notice; no brokers; controller none; 0 partitions",
        "error: broker 3: it is gone",
        "  since: 1970-01-01T00:00:00.000Z (seen by broker 1)",
        "  next: start broker 3",
        "notice: broker 1: uneven",
        "  since: unknown (the brokers do not tell; seen now)",
        "  next: barnabas partitions elect",
    ]


def test_notices_are_no_problem_and_what_was_not_seen_is_said() -> None:
    assert is_healthy([])
    assert is_healthy([NOTICE])
    assert not is_healthy([ERROR])
    unseen = ClusterView(
        brokers={}, controller=1, partitions=(), cluster_id="c-1", unseen=("groups of broker 1: no answer",)
    )
    head, last = list(lines(unseen, []))
    assert head.startswith("cluster c-1: healthy as far as it was seen;")
    assert last == "not seen: groups of broker 1: no answer"
    assert document(unseen, [])["not_seen"] == ["groups of broker 1: no answer"]


def test_names_move_no_cursor_and_end_no_line() -> None:
    problem = replace(ERROR.problem, subject="group a\nb\x1b[2J", next_step="look at a\nb")
    shown = list(lines(VIEW, [replace(ERROR, problem=problem)]))
    assert shown[1].startswith("error: group a\\nb\\x1b[2J: ")
    assert shown[3] == "  next: look at a\\nb"


def test_a_time_that_the_calendar_does_not_have_is_its_number() -> None:
    late = replace(ERROR.problem, since=Since(1_700_000_000_123_456, "time of its last record"))
    view = replace(VIEW, now_ms=2**63 - 1)
    finding = replace(ERROR, problem=late)
    assert (
        list(lines(view, [finding]))[2] == "  since: 1700000000123456 (beyond the calendar) (time of its last record)"
    )
    shown = document(view, [finding])
    assert shown["time"] == "9223372036854775807 (beyond the calendar)"
    assert shown["problems"][0]["since"] == "1700000000123456 (beyond the calendar)"


def test_a_watch_shows_the_time_of_each_view() -> None:
    assert next(lines(VIEW, [], shows_time=True)).startswith("2023-11-14T22:13:20.000Z cluster c-1: healthy; ")


def test_problems_of_one_cause_are_one_unless_all_are_asked_for() -> None:
    shared = Shared("they have no leader; gone: broker 3", "start broker 3")
    found = [
        Finding(
            "no leader",
            Problem(Severity.ERROR, f"partition a-{at}", "it has none", "start", Since(7 - at, "x"), shared),
        )
        for at in range(4)
    ]
    other = replace(found[0], problem=replace(found[0].problem, shared=replace(shared, next_step="start broker 4")))
    assert list(lines(VIEW, [*found, other])) == [
        "cluster c-1: unhealthy, 2 errors; no brokers; controller none; 0 partitions",
        "error: 4 partitions (a-0, a-1, a-2 ...): they have no leader; gone: broker 3",
        "  since: 1970-01-01T00:00:00.004Z (the first of them; x)",
        "  next: start broker 3",
        "error: partition a-0: it has none",
        "  since: 1970-01-01T00:00:00.007Z (x)",
        "  next: start",
    ]
    assert len(list(lines(VIEW, found, shows_all=True))) == 1 + 3 * len(found)
    assert len(document(VIEW, found)["problems"]) == len(found)
    places = [replace(found[0], problem=replace(found[0].problem, subject=f"broker {at}, /d")) for at in (1, 2)]
    assert list(lines(VIEW, places))[1].startswith("error: 2 brokers (1, /d; 2, /d): they have no leader")


def test_of_many_the_first_are_shown_unless_all_are_asked_for() -> None:
    many = [ERROR] * (SHOWN_OF_A_CHECK + 20)
    shown = list(lines(VIEW, many))
    assert shown.count("error: broker 3: it is gone") == SHOWN_OF_A_CHECK
    assert shown[-1] == "error: broker gone: 20 more (--all shows them)"
    assert list(lines(VIEW, many, shows_all=True)).count("error: broker 3: it is gone") == len(many)
    assert len(document(VIEW, many)["problems"]) == len(many)


def test_a_document_says_everything() -> None:
    [problem] = document(VIEW, [ERROR])["problems"]
    assert problem == {
        "check": "broker gone",
        "severity": "error",
        "subject": "broker 3",
        "cause": "it is gone",
        "since": "1970-01-01T00:00:00.000Z",
        "since_note": "seen by broker 1",
        "next": "start broker 3",
    }


def test_a_watch_tells_when_it_saw_a_problem_first_until_it_is_gone() -> None:
    seen: dict[tuple[str, str], int] = {}
    assert with_first_seen([NOTICE], seen, 10)[0].problem.since.at_ms == 10
    assert with_first_seen([NOTICE], seen, 20)[0].problem.since.at_ms == 10
    assert with_first_seen([ERROR], seen, 30) == [ERROR], "a broker tells"
    assert with_first_seen([NOTICE], seen, 40)[0].problem.since.at_ms == 40, "it began again"


def test_every_check_stands_in_the_page_of_everyday_questions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`.*?) \| .* \|$", page.partition("| check | what it finds |")[2].partition("\n\n")[0], re.MULTILINE
    )
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(named) == sorted(check.name for check in CHECKS)
