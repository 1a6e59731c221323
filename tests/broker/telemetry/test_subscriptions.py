"""Which clients a subscription is for, and what they are asked for; ids and order are those of recorded cases."""

from __future__ import annotations

import pytest

from broker.telemetry.subscriptions import ClientFacts, Subscriptions, subscription
from config.errors import ConfigError

ID = bytes(range(15)) + b"\xff"
CLIENT = ClientFacts("AAECAwQFBgcICQoLDA0ODw", "app-1", "apache-kafka-java", "4.3.0", "10.0.0.7", "50123")


@pytest.mark.parametrize(
    ("match", "is_for"),
    [
        ("", True),
        ("client_id=app-.*", True),
        ("client_id=app", False),
        (" client_id = app-1 ,client_software_version=4\\..*", True),
        ("client_id=app-1,client_software_name=librdkafka", False),
        ("client_source_port=[0-9]+,client_source_address=10\\.0\\.0\\.7", True),
        ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
        ("client_id=nobody,client_id=app-1", True),  # the last one counts, as in a map
    ],
)
def test_whom_it_is_for(match: str, is_for: bool) -> None:
    assert subscription("s", {"match": match}).is_for(CLIENT) is is_for


def test_a_client_that_has_no_id_matches_no_pattern_of_it() -> None:
    nameless = CLIENT._replace(client_id=None)
    assert not subscription("s", {"match": "client_id=.*"}).is_for(nameless)
    assert subscription("s", {}).is_for(nameless)


@pytest.mark.parametrize(
    "item",
    ["client_id", "client_id=", "=a", "nobody=1", "client_id=a=b", "client_id=[", "client_id=(?=a)", "client_id=" + "a" * 2000],
)  # fmt: skip
def test_what_is_no_pattern(item: str) -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        subscription("s", {"match": item})


def test_what_a_client_is_asked_for() -> None:
    known = Subscriptions()
    nothing = known.asked(CLIENT, ID)
    assert (nothing.metrics, nothing.interval_ms, nothing.wants("a")) == ((), 300_000, False)
    rows = {
        "b": {"metrics": "ccc,bb,a", "interval.ms": "500"},
        "a": {"metrics": "a", "interval.ms": "900000"},
        "others": {"metrics": "nobody", "match": "client_id=nobody", "interval.ms": "100"},
    }
    known.replace({name: subscription(name, given) for name, given in rows.items()})
    asked = known.asked(CLIENT, ID)
    assert (asked.version, asked.metrics, asked.interval_ms) == (1, ("bb", "a", "ccc"), 500)
    assert [asked.wants(name) for name in ("abc", "cc", "nobody")] == [True, False, False]
    assert asked.subscription_id != known.asked(CLIENT, bytes(16)).subscription_id
    known.replace({"all": subscription("all", {"metrics": "a,*"})})
    assert known.asked(CLIENT, ID).metrics == ("*",)
    assert known.asked(CLIENT, ID).wants("anything")


def test_patterns_cost_time_in_proportion_to_what_they_read() -> None:
    hostile = CLIENT._replace(client_id="a" * 30_000 + "!")
    assert not subscription("s", {"match": "client_id=(a+)+b"}).is_for(hostile)
