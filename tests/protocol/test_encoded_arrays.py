"""Arrays that are encoded before their message: the message is the one that the lists make."""

from __future__ import annotations

import random
from typing import Any

import pytest

from protocol.messages.create_topics import CreatableTopicConfigs, CreateTopicsResponse
from protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResponse
from protocol.primitives import Encoded, EncodeError
from protocol.schema import Message, Response
from tests.protocol.instances import instance

CASES: list[tuple[type[Response], str, type[Message], int]] = [
    *((DescribeConfigsResponse, "results", DescribeConfigsResourceResult, version) for version in range(5)),
    *((CreateTopicsResponse, "topics", CreatableTopicConfigs, version) for version in (5, 6, 7)),
]


@pytest.mark.parametrize(("cls", "rows", "element", "version"), CASES)
def test_the_message_is_the_same(cls: type[Response], rows: str, element: type[Message], version: int) -> None:
    source = random.Random(version)
    encode = cls.array_encoder(element, version)
    seen = set()
    for _ in range(20):
        message: Any = instance(cls, version, source)
        plain = message.encode(version)
        for row in getattr(message, rows):
            if row.configs is not None:
                seen.add(min(len(row.configs), 2))
                row.configs = encode(row.configs)
                assert type(row.configs) is Encoded
        assert message.encode(version) == plain
    assert seen == {0, 1, 2}
    assert cls.array_encoder(element, version) is encode


@pytest.mark.parametrize("version", [0, 4])
def test_what_does_not_fit_is_refused(version: int) -> None:
    row = instance(DescribeConfigsResourceResult, version, random.Random(1))
    row.name = "x" * 40_000
    with pytest.raises(EncodeError):
        DescribeConfigsResponse.array_encoder(DescribeConfigsResourceResult, version)([row])
