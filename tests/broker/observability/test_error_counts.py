"""Errors of responses are counted as Apache Kafka counts them (`error-counts-3.9.txt`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from broker.observability.error_counts import error_counter
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from protocol.messages.find_coordinator import FindCoordinatorResponse
from protocol.messages.offset_fetch import OffsetFetchResponse
from protocol.schema import Response
from tests.oracle.error_counts import cases

RECORDED = (Path(__file__).parent / "error-counts-3.9.txt").read_text(encoding="utf-8").splitlines()
CASES = list(zip(RECORDED, cases(), strict=True))


@pytest.mark.parametrize("api_name", sorted({line.split()[0] for line in RECORDED}))
def test_errors_are_counted_as_in_kafka(api_name: str) -> None:
    compared = 0
    for line, (version, response) in CASES:
        name, recorded_version, *counts = line.split()
        if name == api_name and counts != ["refused"] and _is_sent(version, response):
            assert int(recorded_version) == version
            assert _counts(version, response) == counts, f"{response} in version {version}"
            compared += 1
    assert compared


def _is_sent(version: int, response: Response) -> bool:
    """Random responses also say what no broker does."""
    match response:
        case AddPartitionsToTxnResponse():
            return version >= 4 or bool(response.results_by_topic_v3_and_below)
        case FindCoordinatorResponse():
            return version < 4 or bool(response.coordinators)
        case OffsetFetchResponse():  # without a code of its own, a parser takes the one of a partition for it
            return version >= 2 or not response.topics
    return True


def _counts(version: int, response: Response) -> list[str]:
    errors: Counter[int] = Counter()
    count = error_counter(type(response), version)
    if count is not None:
        count(response, errors)
    return sorted(f"{ErrorCode(code).name}={number}" for code, number in errors.items())
