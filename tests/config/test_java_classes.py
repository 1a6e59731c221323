"""Settings that name Java code which guards something: Kafka's own classes start, every other one is refused.

java-classes-3.9.json has Apache Kafka's answers for the classes, `python -m tests.oracle.settings` records them anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from config.broker import BrokerSettings, base_name
from config.definition import CLASS
from config.errors import ConfigError
from config.java_classes import GUARDS
from config.layers import Layers, check_dynamic_update
from config.problems import Sources, find_problems
from config.providers import NoFiles
from tests.oracle import java
from tests.oracle.settings import JAVA_CLASSES, Case, ask, cases_in

CASES = cases_in(JAVA_CLASSES)
SECURITY = "org.apache.kafka.common.security"
OAUTH = f"{SECURITY}.oauthbearer"
MECHANISM = "listener.name.a.{}.sasl."
LOGIN = f"{SECURITY}.authenticator.DefaultLogin"
LOGIN_HANDLER = f"{SECURITY}.authenticator.AbstractLogin$DefaultLoginCallbackHandler"
VALIDATOR = f"{OAUTH}.OAuthBearerValidatorCallbackHandler"

# Name, value, what the refusal says; an empty text: the start goes on.
ROWS = [
    ("principal.builder.class", "x.Builder", "named by their SASL login, and by ssl.principal.mapping.rules"),
    ("principal.builder.class", "", "ssl.principal.mapping.rules"),
    ("principal.builder.class", f" {SECURITY}.authenticator.DefaultKafkaPrincipalBuilder ", ""),
    ("listener.name.a.principal.builder.class", "x.Builder", "ssl.principal.mapping.rules"),
    ("listener.name.a.principal.builder.class", f"{SECURITY}.authenticator.DefaultKafkaPrincipalBuilder", ""),
    ("create.topic.policy.class.name", "x.Policy", "nothing checks topics that are created"),
    ("alter.config.policy.class.name", "x.Policy", "nothing checks settings that are changed"),
    ("client.quota.callback.class", "x.Callback", "quotas are those of users, client ids and addresses"),
    ("security.providers", "x.Provider", "nothing does the same"),
    ("authorizer.class.name", "x.Authorizer", "must be empty, or kafka.security.authorizer.AclAuthorizer"),
    ("ssl.engine.factory.class", "x.Factory", "TLS is that of OpenSSL"),
    ("listener.name.a.ssl.engine.factory.class", "x.Factory", "TLS is that of OpenSSL"),
    ("ssl.engine.factory.class", f"{SECURITY}.ssl.DefaultSslEngineFactory", ""),
    ("ssl.provider", "BCJSSE", "TLS is that of OpenSSL"),
    ("ssl.provider", "", ""),
    ("ssl.secure.random.implementation", "SHA1PRNG", "random numbers are those of the operating system"),
    ("ssl.trustmanager.algorithm", "TrustEverybody", "certificates are verified by OpenSSL"),
    ("listener.name.a.ssl.trustmanager.algorithm", "TrustEverybody", "certificates are verified by OpenSSL"),
    ("ssl.trustmanager.algorithm", "PKIX", ""),
    ("sasl.server.callback.handler.class", "x.Handler", "SCRAM those of barnabas users"),
    (
        MECHANISM.format("plain") + "server.callback.handler.class",
        "x.Handler",
        "PLAIN has the users in sasl.jaas.config",
    ),
    (MECHANISM.format("plain") + "server.callback.handler.class", VALIDATOR, "PLAIN has the users in sasl.jaas.config"),
    (
        MECHANISM.format("plain") + "server.callback.handler.class",
        f"{SECURITY}.plain.internals.PlainServerCallbackHandler",
        "",
    ),
    (MECHANISM.format("oauthbearer") + "server.callback.handler.class", VALIDATOR, ""),
    (MECHANISM.format("oauthbearer") + "server.callback.handler.class", LOGIN_HANDLER, "jwks.endpoint.url"),
    ("sasl.client.callback.handler.class", "x.Handler", "logs in to others by the login module"),
    ("sasl.client.callback.handler.class", f"{SECURITY}.authenticator.SaslClientCallbackHandler", ""),
    ("sasl.login.class", "x.Login", "logs in to others by the login module"),
    ("sasl.login.class", LOGIN, ""),
    (MECHANISM.format("scram-sha-512") + "login.class", LOGIN, ""),
    (MECHANISM.format("oauthbearer") + "login.class", LOGIN, "sasl.oauthbearer.token.endpoint.url"),
    (MECHANISM.format("plain") + "login.callback.handler.class", LOGIN_HANDLER, ""),
    (MECHANISM.format("plain") + "login.callback.handler.class", "x.Handler", "logs in to others by the login module"),
    (
        MECHANISM.format("oauthbearer") + "login.callback.handler.class",
        f"{OAUTH}.secured.OAuthBearerLoginCallbackHandler",
        "",
    ),
]


def test_every_guard_has_a_row_that_is_refused() -> None:
    refused = {base_name(name) for name, _, reason in ROWS if reason}
    assert refused == GUARDS.keys() | {"authorizer.class.name"}


@pytest.mark.parametrize(("name", "value", "reason"), ROWS)
def test_a_start(name: str, value: str, reason: str) -> None:
    if not reason:
        BrokerSettings.from_sources({name: value}, {}, {})
        return
    with pytest.raises(ConfigError) as refused:
        BrokerSettings.from_sources({name: value}, {}, {})
    assert refused.value.line.startswith(f"{name}={value}: this broker runs no Java")
    assert reason in refused.value.line and "\n" not in refused.value.line


def test_the_page_says_what_does_the_same() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    table = page.partition("## Settings that name Java classes")[2]
    assert {name for name in GUARDS if f"`{name}`" not in table} == set()


def test_a_check_names_all_of_them() -> None:
    given = dict.fromkeys(GUARDS, "x.Y")
    found = find_problems(Sources(given), NoFiles(), lambda _: ())
    assert {problem.settings[0] for problem in found} == given.keys()
    assert all(problem.is_error for problem in found)


@pytest.mark.parametrize("name", ["principal.builder.class", "ssl.engine.factory.class", "ssl.trustmanager.algorithm"])
def test_a_dynamic_change_is_refused_too(name: str) -> None:
    for full_name in (name, f"listener.name.a.{name}"):
        with pytest.raises(ConfigError, match=f"{full_name}=x.Y: this broker runs no Java"):
            check_dynamic_update(Layers(BrokerSettings({})), {full_name: "x.Y"}, per_broker=True)


# --- Apache Kafka itself ---


@pytest.mark.parametrize("case", CASES, ids=lambda case: "{}={}".format(*next(iter(case["given"].items()))))
def test_what_apache_kafka_refuses_is_refused_and_its_own_classes_start(case: Case) -> None:
    try:
        BrokerSettings.from_sources(case["given"], {}, {})
    except ConfigError:
        assert case["answer"] or case["given"] == {"security.providers": "x.Y"}, "which Apache Kafka looks for later"
    else:
        assert not case["answer"]


def test_every_class_that_is_taken_was_asked() -> None:
    asked = {(name, value) for case in CASES for name, value in case["given"].items()}
    for name in asked_names():
        taken = GUARDS[name].taken
        for value in taken if isinstance(taken, frozenset) else frozenset().union(*taken.values()):
            assert (name, value) in asked


def asked_names() -> list[str]:
    """The settings whose values are classes, which Apache Kafka looks for when it reads them."""
    return [name for name in GUARDS if BrokerSettings.definitions[name].type is CLASS]


@pytest.mark.oracle
def test_apache_kafka_still_answers_so() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    assert ask(JAVA_CLASSES) == CASES
