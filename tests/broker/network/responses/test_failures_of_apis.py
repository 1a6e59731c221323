"""The response of each API to a request that failed as a whole, in every version: it can be sent, and has the error in each row
that the request asks for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from broker.handlers import ALL
from broker.network.routes import Handler
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest
from protocol.schema import Message
from tests.protocol.instances import instance

REQUESTS = 10
ERROR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
# Errors beside the one of the request or of the row: of the settings of a topic that was created.
_OF_DETAILS = "topic_config_error_code"
# Responses without a place for an error in their old versions.
WITHOUT_A_PLACE = {("DescribeLogDirs", 0), ("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}

CASES = [(handler, version) for handler in ALL for version in range(handler.first_version, handler.last_version + 1)]


def codes(value: object) -> Iterator[int]:
    """Yield the codes of a response and of its rows."""
    if isinstance(value, Message):
        for field in value.__fields__:
            each = getattr(value, field.name)
            if field.name in ("error_code", "partition_error_code"):
                yield each
            elif field.name != _OF_DETAILS:
                yield from codes(each)
    elif isinstance(value, list):
        for each in value:
            yield from codes(each)


@pytest.mark.parametrize(
    ("handler", "version"), CASES, ids=[f"{handler.api_name}-{version}" for handler, version in CASES]
)
def test_it_has_the_error(handler: Handler[Any], version: int) -> None:
    found: set[int] = set()
    for seed in range(REQUESTS):  # some have no rows
        request = instance(handler.request_type, version, random.Random(seed))
        if isinstance(request, ProduceRequest):
            request.acks = 1
        response = handler.errors(request, version, ERROR, "text")
        assert response is not None
        found |= set(codes(type(response).decode(response.encode(version), version)))
    assert ERROR in found or (handler.api_name, version) in WITHOUT_A_PLACE
    assert found <= {ERROR, ErrorCode.NONE}
