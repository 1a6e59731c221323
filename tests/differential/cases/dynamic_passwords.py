"""Dynamic passwords of a broker with `password.encoder.secret`: who may have them, and what is shown of them."""

from __future__ import annotations

from typing import Any

from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.incremental_alter_configs import AlterableConfig as Change
from protocol.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.differential.cases.configs import BROKER, DELETE, SET, describing
from tests.differential.cases.sasl import authenticate
from tests.differential.play import SASL, Run, case

DYNAMIC_BROKER = 2
SECRETS = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.password",
    "ssl.keystore.key",
    "plain.sasl.jaas.config",
)


def names(run: Run) -> dict[str, str]:
    """The passwords of a listener of this run's own, which the broker does not have."""
    listener = run.name("l").replace("-", "")
    return {secret: f"listener.name.{listener}.{secret}" for secret in SECRETS}


def changing(
    name: str, changes: dict[str, str | None], *, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [
        Change(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resource = ChangedResource(resource_type=BROKER, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def show(run: Run, *expected: str) -> None:
    """Of the broker's settings those of this run's listener: whether there is a value, and where it is from. Apache Kafka takes
    a change over some moments after its response: wait until the passwords `expected` are there, and no others."""
    given = names(run)

    def rows() -> dict[str, Any]:
        (result,) = run.do(describing(BROKER, "0", None, synonyms=True), 4).results
        return {row.name: row for row in result.configs if row.config_source == DYNAMIC_BROKER}

    run.until("the change is in force", lambda: {each for each in given if given[each] in rows()} == set(expected))
    found = rows()
    shown = {secret: found[given[secret]] for secret in expected}
    run.note({secret: [row.value, row.is_sensitive, row.config_source, row.read_only] for secret, row in shown.items()})


@case(IncrementalAlterConfigsRequest, "normal", stage=SASL)
def passwords_of_a_listener(run: Run) -> None:
    authenticate(run)
    given = names(run)
    run.ask(changing("0", dict.fromkeys(given.values(), "s3cret"), validate_only=True))
    show(run)
    run.ask(changing("0", dict.fromkeys(given.values(), "s3cret")))
    show(run, *SECRETS)
    run.ask(changing("0", {given["ssl.key.password"]: "another", given["ssl.keystore.key"]: None}))
    show(run, *(secret for secret in SECRETS if secret != "ssl.keystore.key"))
    run.ask(changing("0", dict.fromkeys(given.values())))
    show(run)


@case(IncrementalAlterConfigsRequest, "wrong", stage=SASL)
def passwords_in_places_that_have_none(run: Run) -> None:
    authenticate(run)
    given = names(run)
    run.ask(changing("", {given["ssl.key.password"]: "s3cret"}))
    run.ask(changing("", {"own.ssl.key.password": "s3cret"}))
    for name in ("ssl.keystore.password", "password.encoder.secret", "delegation.token.secret.key"):
        run.ask(changing("0", {name: "s3cret"}))
    run.ask(changing("1", {given["ssl.key.password"]: "s3cret"}))


@case(DescribeConfigsRequest, "edge", "1+", stage=SASL)
def synonyms_of_a_password(run: Run) -> None:
    authenticate(run)
    name = names(run)["ssl.key.password"]
    run.do(changing("0", {name: "s3cret"}))
    show(run, "ssl.key.password")

    def without_its_name(answer: Any) -> None:
        for result in answer.results:
            result.configs = [row for row in result.configs if row.name == name]
            for row in result.configs:
                row.name, row.documentation = "<name>", None
                for synonym in row.synonyms:
                    synonym.name = synonym.name.replace(name, "<name>")

    run.ask(describing(BROKER, "0", None, synonyms=True), pick=without_its_name)
    run.do(changing("0", {name: None}))


@case(AlterConfigsRequest, "edge", stage=SASL)
def a_password_in_place_of_all_settings(run: Run) -> None:
    authenticate(run)
    given = names(run)
    for secret in ("ssl.key.password", "ssl.keystore.password"):
        rows = [AlterableConfig(name=given[secret], value="s3cret")]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="0", configs=rows)
        run.ask(AlterConfigsRequest(resources=[resource], validate_only=False))
        show(run, secret)
    run.ask(
        AlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=BROKER, resource_name="0", configs=[])], validate_only=False
        )
    )
    show(run)
