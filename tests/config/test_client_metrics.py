"""Settings of a subscription, as Apache Kafka 4.3.0 takes and refuses them; recorded cases have the rest."""

from __future__ import annotations

import pytest

from config.client_metrics import SubscriptionRefused, check_subscription_settings
from config.errors import ConfigError


def test_what_a_subscription_may_have() -> None:
    own = check_subscription_settings("s", {"metrics": "a., b.", "match": "client_id=x", "interval.ms": "100"})
    assert (own.metrics, own.match, own.interval_ms) == (("a.", "b."), ("client_id=x",), 100)
    empty = check_subscription_settings("s", {})
    assert (empty.metrics, empty.match, empty.interval_ms) == ((), (), 300_000)


@pytest.mark.parametrize(
    ("name", "given", "is_request", "text"),
    [
        ("", {}, True, "Subscription name can't be empty"),
        ("s", {"nope": "1"}, True, "Unknown client metrics configuration: nope"),
        (
            "s",
            {"interval.ms": "99"},
            True,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000",
        ),
        ("s", {"interval.ms": "1h"}, False, "Invalid value 1h for configuration interval.ms: Not a number of type INT"),
        ("s", {"metrics": "a,,b"}, False, "Configuration 'metrics' values must not be empty."),
    ],
)
def test_what_it_may_not(name: str, given: dict[str, str], is_request: bool, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_subscription_settings(name, given)
    assert str(refused.value).startswith(text)
    assert isinstance(refused.value, SubscriptionRefused) is is_request
