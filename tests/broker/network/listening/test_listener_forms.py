"""Every form of `listeners` and `advertised.listeners` that Apache Kafka 3.9.1 was asked for, and what we make of it.

listeners-3.9.json has its answers, `python -m tests.oracle.settings` records them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from broker.composition import listener_plans
from broker.network.listening.listeners import ListenerPlan
from config.broker import BrokerSettings
from config.errors import ConfigError
from tests.oracle import java
from tests.oracle.settings import LISTENERS, Case, ask, cases_in, given_in

REFUSED_HERE_ONLY = {
    # Apache Kafka fails a moment later, when it opens the port, or tells clients what they cannot connect to.
    *("A://h:65536", "A://h:-1", "A://::9092", "A://nonsense:x:9092", "A://h%x:9092"),
    # It cannot open the second of them.
    *("A://0.0.0.0:9092,B://[::]:9092", "A://0.0.0.0:9092,B://[::1]:9092", "A://127.0.0.1:9092,B://[::]:9092"),
}
REFUSED_HERE_AS_ADVERTISED = {
    "A://[::]:9092",
    "A://:::9092",
    "A://0:0:0:0:0:0:0:0:9092",
    "A://127.0.0.1:9092,B://[::]:9092",
}
"""Nobody can connect to the wildcard address from another machine."""
CASES = cases_in(LISTENERS)


def ours(given: Mapping[str, str]) -> dict[str, Any]:
    """As ReadSettings.java answers, but for the error, which is our one line."""
    try:
        plans = listener_plans(BrokerSettings.from_sources(given, {}, {}))
    except ConfigError as error:
        return {"error": error.line}
    registered = sorted((plan for plan in plans if plan.position is not None), key=lambda plan: plan.position or 0)
    return {
        "listeners": [row(plan) for plan in plans],
        "advertised": [row(plan, advertised=True) for plan in registered],
    }


def row(plan: ListenerPlan, *, advertised: bool = False) -> list[object]:
    address = plan.advertised if advertised and plan.advertised is not None else plan.bind
    return [plan.name, address.host or None, address.port]


def is_refused_here_only(given: Mapping[str, str]) -> bool:
    if "advertised.listeners" not in given:
        return given["listeners"] in REFUSED_HERE_ONLY
    told = given["advertised.listeners"]
    return (
        told in REFUSED_HERE_AS_ADVERTISED
        or given["listeners"] in REFUSED_HERE_ONLY
        or (told in REFUSED_HERE_ONLY and "," not in told)
    )


def is_served_here_only(given: Mapping[str, str]) -> bool:
    """Clients are told the address that they used: a difference on purpose."""
    return "advertised.listeners" not in given and "0.0.0.0" in given["listeners"] and "," not in given["listeners"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " | ".join(case["given"].values()))
def test_the_form_is_taken_or_refused_as_by_apache_kafka(case: Case) -> None:
    given, answer = case["given"], ours(given_in(LISTENERS, case))
    if is_served_here_only(given):
        assert "error" in case["answer"] and "error" not in answer
    elif "error" in case["answer"] or is_refused_here_only(given):
        line = answer["error"]
        assert "\n" not in line
        assert any(
            name in line for name in ("listeners", "listener.security.protocol.map", "inter.broker.listener.name")
        )
    else:
        assert answer == case["answer"]


def test_what_is_refused_here_only_is_taken_by_apache_kafka() -> None:
    for case in CASES:
        if is_refused_here_only(case["given"]) and "0.0.0.0" not in case["given"]["listeners"]:
            assert "error" not in case["answer"], case["given"]
    assert sum("error" in case["answer"] for case in CASES) > 60, "the recording is what it was made for"


@pytest.mark.parametrize(
    "host", ["${POD_IP}", "$(hostname -f)", "my host", '"h"', "*", "user@h", "häuser", "h:x", "h%x"]
)
@pytest.mark.parametrize("setting", ["listeners", "advertised.listeners"])
def test_the_line_names_the_setting_the_value_and_what_is_valid(setting: str, host: str) -> None:
    given = {"listeners": "PLAINTEXT://h:1", setting: f"PLAINTEXT://{host}:9092"}
    with pytest.raises(ConfigError) as caught:
        listener_plans(BrokerSettings.from_sources(given, {}, {}))
    line = caught.value.line
    assert line.startswith(f"{setting}=PLAINTEXT://{host}:9092: ")
    assert "NAME://host:port" in line and "letters, digits" in line and "65535" in line


@pytest.mark.oracle
def test_apache_kafka_still_answers_so() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    assert ask(LISTENERS) == CASES
