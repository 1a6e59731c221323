"""No cell of the matrix is empty: every API and version has a normal, an edge and a wrong request, and every error code
that a handler can give was seen; docs/differences.md lists what cannot be."""

from __future__ import annotations

import pytest

from broker.handlers import ALL
from broker.network.newer_versions import NOT_IN_3_9
from tests.differential import cluster_run, recording
from tests.differential.cases import load_all
from tests.differential.exceptions import differing_cases, is_text, tables, unreached_errors
from tests.differential.handler_errors import HANDLER_ERRORS
from tests.differential.play import CASES, KINDS, SECURED, error_messages, error_names, served_versions, ungrouped
from tests.oracle.versions import newest_version

load_all()

APIS = {case.api.api_name: case.api for case in CASES.values()}


def test_every_built_api_has_cases() -> None:
    built = {handler.request_type.api_name for handler in ALL if newest_version(handler.request_type) != NOT_IN_3_9}
    assert built - APIS.keys() == set(), "APIs without a case"
    assert APIS.keys() - built == set(), "cases of APIs that are not built"


@pytest.mark.parametrize("api_name", sorted(APIS))
def test_every_version_has_normal_edge_and_wrong_requests(api_name: str) -> None:
    api = APIS[api_name]
    allowed = {(row["API"], row["Versions"], row["Kind"]) for row in tables().get("Empty cells", [])}
    filled = {(version, case.kind) for case in CASES.values() if case.api is api for version in case.versions}
    empty = [
        f"v{version} {kind}"
        for version in served_versions(api)
        for kind in KINDS
        if (version, kind) not in filled
        and not any(a == api_name and k == kind and _within(version, v) for a, v, k in allowed)
    ]
    assert not empty


def seen_errors(api_name: str) -> set[str]:
    """The error codes that stand in the recorded answers, of one broker and of three."""
    entries = [entry for whose in ("kafka", "barnabas") for entry in recording.load(api_name, whose).values()]
    alone = {name for entry in entries for name in error_names(entry["answers"])}
    return alone | {
        name
        for scenario in cluster_run.recorded()
        for what, answers in cluster_run.load(scenario).items()
        if what.startswith(f"{api_name} to ")
        for name in error_names(answers)
    }


def _within(version: int, versions: str) -> bool:
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


@pytest.mark.parametrize("api_name", sorted(APIS))
def test_every_error_code_is_seen(api_name: str) -> None:
    excused = unreached_errors()
    missing = {
        error
        for error in HANDLER_ERRORS[api_name] - seen_errors(api_name)
        if (api_name, error) not in excused and ("*", error) not in excused
    }
    assert not missing


FREE_VERSIONS = {
    "CreateDelegationToken": {0, 1, 2},
    "ConsumerGroupHeartbeat": {0},
    "ConsumerGroupDescribe": {0},
}
"""Versions in which nobody needs a right: the tokens are the client's own, and the others are not served without feature
levels."""


@pytest.mark.parametrize("api_name", sorted({handler.api_name for handler in ALL if handler.access}))
def test_rights_make_a_difference(api_name: str) -> None:
    """Every API that needs a right is asked, in every version, by who has none and by who has all."""
    handlers = [handler for handler in ALL if handler.api_name == api_name]
    versions = set(served_versions(handlers[0].request_type))
    for case in CASES.values():
        if case.stage == SECURED and case.api is handlers[0].request_type:
            answers = recording.answers_of(case)
            versions -= {version for version in case.versions if len(answers[version]) > 1}
    assert versions == FREE_VERSIONS.get(api_name, set())


def test_every_excuse_is_needed() -> None:
    for api_name, error in unreached_errors():
        apis = [api for api in (APIS if api_name == "*" else [api_name]) if error in HANDLER_ERRORS[api]]
        assert apis, f"{api_name} {error}: no such cell"
        assert any(error not in seen_errors(api) for api in apis), f"{api_name} {error}: a case brings it about"


def test_every_listed_case_exists() -> None:
    assert differing_cases().keys() <= CASES.keys()


def test_every_error_message_that_differs_is_seen() -> None:
    for row in tables()["Error messages"]:
        seen = {text for entry in recording.load(row["API"]).values() for text in error_messages(entry["answers"])}
        assert any(is_text(row["Apache Kafka 3.9.1"], text) for text in seen), f"{row['API']}: no case brings it about"


@pytest.mark.parametrize("api_name", sorted(APIS))
def test_every_case_is_recorded_in_every_version(api_name: str) -> None:
    recorded = recording.load(api_name)
    cases = {case.name: case for case in CASES.values() if case.api.api_name == api_name}
    assert recorded.keys() == cases.keys()
    for name, case in cases.items():
        assert tuple(sorted(ungrouped(recorded[name]["answers"]))) == case.versions, name
