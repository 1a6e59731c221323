"""All problems of static settings at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.problems import Problem, Sources, find_problems
from config.providers import NoFiles

PROVIDER = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def nothing(_: BrokerSettings) -> Iterator[ConfigError]:
    yield from ()


def problems_of(**given: str) -> list[Problem]:
    properties = {name.replace("__", "."): value for name, value in given.items()}
    return find_problems(Sources(properties), NoFiles(), nothing)


def test_good_settings_have_none() -> None:
    assert problems_of(broker__id="1", num__partitions="3") == []


def test_every_wrong_value_is_named_not_only_the_first() -> None:
    found = problems_of(log__segment__bytes="1", num__partitions="many", log__retention__ms="0")
    assert [problem.settings for problem in found] == [("log.segment.bytes",), ("num.partitions",)]
    assert all(problem.is_error for problem in found)
    assert found[0].reason.endswith("Value must be at least 14 (valid: [14,...])")


def test_a_wrong_value_of_one_listener_is_named_with_its_listener() -> None:
    (found,) = find_problems(Sources({"listener.name.a.max.connections": "-1"}), NoFiles(), nothing)
    assert "configuration listener.name.a.max.connections:" in found.reason


def test_every_contradiction_is_named_with_its_settings() -> None:
    found = problems_of(
        log__retention__ms="0",
        replica__fetch__wait__max__ms="40000",
        max__connections__per__ip="0",
        process__roles="broker",
        authorizer__class__name="org.example.Authorizer",
    )
    assert [problem.settings[:1] for problem in found] == [
        ("process.roles",),
        ("log.retention.ms",),
        ("replica.fetch.wait.max.ms",),
        ("authorizer.class.name",),
        ("max.connections.per.ip",),
    ]


def test_contradictions_are_those_that_a_start_refuses() -> None:
    given = {"log.retention.ms": "0"}
    (found,) = find_problems(Sources(given), NoFiles(), nothing)
    with pytest.raises(ConfigError) as refused:
        BrokerSettings.from_sources(given, {}, {})
    assert found.reason == refused.value.line


def test_what_others_refuse_is_asked_only_for_settings_that_are_valid() -> None:
    def refuse(settings: BrokerSettings) -> Iterator[ConfigError]:
        yield ConfigError(f"listeners={settings.listeners}: no")

    given = {"listeners": "x"}
    assert find_problems(Sources(given), NoFiles(), refuse) == [Problem(("listeners",), "listeners=x: no")]
    (found,) = find_problems(Sources(given | {"num.partitions": "0"}), NoFiles(), refuse)
    assert found.settings == ("num.partitions",)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("log.segmnt.bytes", "unknown setting log.segmnt.bytes: did you mean log.segment.bytes?"),
        ("retention.ms", "unknown setting retention.ms: it is a topic's, the broker's is log.retention.ms"),
        ("of.nobody", "unknown setting of.nobody"),
    ],
)
def test_an_unknown_name_is_an_error_with_what_may_be_meant(name: str, reason: str) -> None:
    assert find_problems(Sources({name: "1"}), NoFiles(), nothing) == [Problem((name,), reason)]
    assert find_problems(Sources(overrides={name: "1"}), NoFiles(), nothing) == [Problem((name,), reason)]


def test_an_unknown_variable_of_the_environment_is_no_error() -> None:
    (found,) = find_problems(Sources(environment={"KAFKA_CLUSTERS_NAME": "x"}), NoFiles(), nothing)
    assert found.settings == ("clusters.name",) and not found.is_error


def test_known_settings_without_effect_are_no_errors() -> None:
    (found,) = problems_of(background__threads="7")
    assert found == Problem(
        ("background.threads",), "background.threads is accepted and has no effect in this broker", is_error=False
    )


def test_errors_come_first() -> None:
    found = problems_of(background__threads="7", zzz="1")
    assert [problem.is_error for problem in found] == [True, False]


def test_what_a_provider_gives_is_not_told() -> None:
    environment = {"SECRET": "hunter2"}
    given = PROVIDER | {"num.partitions": "${env:SECRET}", "ssl.key.password": "${env:NONE}"}
    wrong, unresolved = find_problems(Sources(given, environment), NoFiles(), nothing)
    assert "given by ${env:SECRET}, not shown" in wrong.reason
    assert unresolved.settings == ("ssl.key.password",) and not unresolved.is_error
    given = PROVIDER | {"authorizer.class.name": "${env:SECRET}"}
    (found,) = find_problems(Sources(given, environment), NoFiles(), nothing)
    assert "hunter2" not in found.reason and "${env:SECRET}" in found.reason


def test_a_provider_that_does_not_exist_is_the_only_problem() -> None:
    given = {"config.providers": "vault", "config.providers.vault.class": "org.example.Vault", "num.partitions": "x"}
    (found,) = find_problems(Sources(given), NoFiles(), nothing)
    assert found.is_error and "org.example.Vault" in found.reason
