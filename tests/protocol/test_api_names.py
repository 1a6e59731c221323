"""Names of APIs: those of all messages, and others."""

from __future__ import annotations

from broker.handlers import ALL
from protocol.api_names import API_NAMES, name_of_api


def test_the_apis_that_are_served_have_the_names_of_their_messages() -> None:
    served = {handler.request_type.api_key: handler.request_type.api_name for handler in ALL}
    assert {key: API_NAMES[key] for key in served} == served


def test_newer_apis_have_names_too() -> None:
    assert name_of_api(55) == "DescribeQuorum"
    assert name_of_api(78) == "ShareFetch"
    assert name_of_api(10_000) == "unknown"
