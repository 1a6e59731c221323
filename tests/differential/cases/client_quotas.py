"""DescribeClientQuotas and AlterClientQuotas.

Both brokers are shared by all cases: quotas that concern other clients, those of defaults, are so high that nobody is
throttled, and are removed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.differential.play import Run, case

EXACT, DEFAULT, ANY = 0, 1, 2
USER, CLIENT, IP = "user", "client-id", "ip"
HIGH = 1e15
PRODUCE, CONSUME, PERCENT = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

Entity = dict[str, str | None]
Values = dict[str, float | None]


def entity_of(entity: Entity) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]


def altering(*changes: tuple[Entity, Values], validate_only: bool = False) -> AlterClientQuotasRequest:
    """Each change sets quotas of an entity, or removes those with None."""
    entries = [
        RequestEntryData(
            entity=entity_of(entity),
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
        )
        for entity, values in changes
    ]
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def asking(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
        strict=strict,
    )


def exactly(entity: Entity) -> DescribeClientQuotasRequest:
    return asking(*((kind, DEFAULT if name is None else EXACT, name) for kind, name in entity.items()), strict=True)


def own(run: Run, *others: str) -> Callable[[DescribeClientQuotasResponse], None]:
    """Only the entities of this run, and `others`, in order."""

    def pick(answer: DescribeClientQuotasResponse) -> None:
        if answer.entries is None:
            return
        kept = []
        for entry in answer.entries:
            names = [each.entity_name for each in entry.entity]
            if any(name is not None and (name.startswith(run.prefix) or name in others) for name in names):
                kept.append(entry)
                entry.values.sort(key=lambda value: value.key)
        kept.sort(key=lambda entry: [(each.entity_type, each.entity_name or "") for each in entry.entity])
        answer.entries = kept

    return pick


def ordered(answer: DescribeClientQuotasResponse) -> None:
    for entry in answer.entries or []:
        entry.values.sort(key=lambda value: value.key)
        for value in entry.values:
            if math.isnan(value.value):
                value.value = "NaN"  # type: ignore[assignment]  # which, unlike a NaN, equals itself


def in_order(answer: AlterClientQuotasResponse) -> None:
    answer.entries.sort(key=lambda entry: [(each.entity_type, each.entity_name or "") for each in entry.entity])


def entities(run: Run) -> list[Entity]:
    user, client = run.name("u"), run.name("c")
    return [{USER: user}, {CLIENT: client}, {USER: user, CLIENT: client}]


# --- AlterClientQuotas ---


@case(AlterClientQuotasRequest, "normal")
def set_change_and_remove(run: Run) -> None:
    for entity in entities(run):
        for values in (
            {PRODUCE: HIGH, CONSUME: 5e9, PERCENT: 1234.5, MUTATIONS: 0.25},
            {PRODUCE: 2e9, CONSUME: None},
            {MUTATIONS: None, CONSUME: None},
            {PRODUCE: None, PERCENT: None},
            {PRODUCE: None},
        ):
            run.ask(altering((entity, values)))
            run.ask(exactly(entity), 1, pick=ordered)


@case(AlterClientQuotasRequest, "normal")
def of_addresses(run: Run) -> None:
    for entity in ({IP: "10.1.2.3"}, {IP: "fe80::1"}, {IP: None}):
        run.ask(altering((entity, {CONNECTIONS: 1_000_000.0})))
        run.ask(exactly(entity), 1)
        run.ask(altering((entity, {CONNECTIONS: None})))
        run.ask(exactly(entity), 1)


@case(AlterClientQuotasRequest, "normal")
def defaults(run: Run) -> None:
    for entity in ({USER: None}, {CLIENT: None}, {USER: None, CLIENT: None}, {USER: None, CLIENT: run.name("c")}):
        run.ask(altering((entity, {PRODUCE: HIGH})))
        run.ask(exactly(entity), 1)
        run.ask(altering((entity, {PRODUCE: None})))
        run.ask(exactly(entity), 1)


@case(AlterClientQuotasRequest, "normal")
def only_validated(run: Run) -> None:
    for entity in entities(run):
        run.ask(altering((entity, {PRODUCE: HIGH}), validate_only=True))
        run.ask(altering((entity, {"nonsense": HIGH}), validate_only=True))
        run.ask(exactly(entity), 1)


@case(AlterClientQuotasRequest, "normal")
def several_entities(run: Run) -> None:
    user, client, both = entities(run)
    run.ask(
        altering((user, {PRODUCE: HIGH}), (client, {"nonsense": 1.0}), (both, {CONSUME: HIGH, PRODUCE: 1.5})),
        pick=in_order,
    )
    run.ask(asking((USER, ANY, None)), 1, pick=own(run))


@case(AlterClientQuotasRequest, "edge")
def names_with_characters_of_paths(run: Run) -> None:
    for name in ("a/b", "a%2Fb", "a+b c*d", "<default>", "äöü€", "a:b=c,d", "..", "\u0001", "~-_."):
        named = run.name(name)
        run.ask(altering(({USER: named}, {PRODUCE: HIGH})))
        run.ask(exactly({USER: named}), 1)
        run.ask(altering(({USER: named, CLIENT: named}, {PRODUCE: HIGH})))
        run.ask(exactly({USER: named, CLIENT: named}), 1)
    run.ask(asking((USER, ANY, None)), 1, pick=own(run))


@case(AlterClientQuotasRequest, "edge")
def a_name_that_reads_like_the_default(run: Run) -> None:
    for kind in (USER, CLIENT):
        run.ask(altering(({kind: "<default>"}, {PRODUCE: HIGH})))
        run.ask(exactly({kind: "<default>"}), 1)
        run.ask(exactly({kind: None}), 1)
        run.ask(altering(({kind: "<default>"}, {PRODUCE: None})))


@case(AlterClientQuotasRequest, "edge")
def values_that_are_no_whole_numbers(run: Run) -> None:
    _, client, _ = entities(run)
    for key in (PRODUCE, CONSUME, PERCENT, MUTATIONS):
        for value in (
            1.5,
            1000.0000001,
            0.0,
            -1.0,
            -0.5,
            1e300,
            2.0**63,
            math.inf,
            -math.inf,
            math.nan,
            1e-9,
            123456789.0,
        ):
            run.ask(altering((client, {key: value})))
            run.ask(exactly(client), 1, pick=ordered)
    run.ask(altering((client, dict.fromkeys((PRODUCE, CONSUME, PERCENT, MUTATIONS)))))


@case(AlterClientQuotasRequest, "edge")
def values_of_connection_rates(run: Run) -> None:
    for value in (1.5, 1000.0000001, 0.0, -1.0, 1e300, 2.0**31, 2147483647.0, math.inf, math.nan):
        run.ask(altering(({IP: "10.1.2.4"}, {CONNECTIONS: value})))
        run.ask(exactly({IP: "10.1.2.4"}), 1)
    run.ask(altering(({IP: "10.1.2.4"}, {CONNECTIONS: None})))


@case(AlterClientQuotasRequest, "edge")
def the_same_key_twice(run: Run) -> None:
    user, _, _ = entities(run)
    request = altering((user, {PRODUCE: 1e12}))
    (entry,) = request.entries
    entry.ops.append(OpData(key=PRODUCE, value=2e12, remove=False))
    entry.ops.append(OpData(key=CONSUME, value=3e12, remove=False))
    entry.ops.append(OpData(key=CONSUME, value=0.0, remove=True))
    run.ask(request)
    run.ask(exactly(user), 1, pick=ordered)


@case(AlterClientQuotasRequest, "edge")
def the_same_entity_twice(run: Run) -> None:
    user, _, both = entities(run)
    run.ask(altering((user, {PRODUCE: 1e12}), (user, {CONSUME: 2e12})))
    run.ask(exactly(user), 1, pick=ordered)
    turned: Entity = dict(reversed(both.items()))
    run.ask(altering((both, {PRODUCE: 1e12}), (turned, {"nonsense": 2e12})))
    run.ask(exactly(both), 1, pick=ordered)


@case(AlterClientQuotasRequest, "edge")
def the_same_type_twice(run: Run) -> None:
    user, client, _ = entities(run)
    request = altering((user, {PRODUCE: 1e12}))
    request.entries[0].entity += entity_of({USER: run.name("other")})
    run.ask(request)
    run.ask(asking((USER, ANY, None)), 1, pick=own(run))
    request = altering((client, {PRODUCE: 1e12}))
    request.entries[0].entity += entity_of({CLIENT: ""})
    run.ask(request)


@case(AlterClientQuotasRequest, "edge")
def nothing_to_do(run: Run) -> None:
    user, _, _ = entities(run)
    run.ask(altering())
    run.ask(altering((user, {})))
    run.ask(exactly(user), 1)


@case(AlterClientQuotasRequest, "wrong")
def entities_that_are_not(run: Run) -> None:
    user, client, _ = entities(run)
    wrong: list[Entity] = [
        {},
        {USER: ""},
        {CLIENT: ""},
        {IP: ""},
        {USER: run.name("u"), CLIENT: ""},
        {"nonsense": "x"},
        {"": "x"},
        {"User": "x"},
        {IP: "10.1.2.3", **user},
        {IP: "10.1.2.3", **client},
        {IP: "not an address"},
        {IP: "no-such-host.invalid"},
        {IP: "<default>"},
        {IP: "10.1.2.3/8"},
        {IP: "[fe80::1]"},
        {IP: None, **user},
    ]
    for entity in wrong:
        run.ask(altering((entity, {PRODUCE: HIGH})))
        run.ask(altering((entity, {PRODUCE: HIGH}), validate_only=True))


@case(AlterClientQuotasRequest, "wrong")
def keys_that_are_not(run: Run) -> None:
    for entity in (*entities(run), {IP: "10.1.2.5"}):
        for key in (CONNECTIONS, "nonsense", "", "Producer_Byte_Rate", "retention.ms"):
            run.ask(altering((entity, {key: 1e6})))
            run.ask(altering((entity, {key: None})))
    run.ask(altering(({IP: "10.1.2.5"}, {PRODUCE: 1e6})))
    run.ask(altering(({CLIENT: run.name("c")}, {"SCRAM-SHA-256": 1.0})))


@case(AlterClientQuotasRequest, "wrong")
def credentials_are_no_quotas(run: Run) -> None:
    run.ask(altering(({USER: run.name("u")}, {"SCRAM-SHA-256": 1.0})))


# --- DescribeClientQuotas ---


def _fill(run: Run) -> None:
    """Quotas of two users and two clients, alone and together."""
    users, clients = (run.name("u1"), run.name("u2")), (run.name("c1"), run.name("c2"))
    changes: list[tuple[Entity, Values]] = [({USER: name}, {PRODUCE: 1e12}) for name in users]
    changes += [({CLIENT: name}, {CONSUME: 2e12}) for name in clients]
    changes += [({USER: user, CLIENT: client}, {PERCENT: 1e6}) for user in users for client in clients]
    changes += [({USER: users[0], CLIENT: None}, {MUTATIONS: 1e6}), ({USER: None, CLIENT: clients[0]}, {PRODUCE: 3e12})]
    run.do(altering(*changes))


@case(DescribeClientQuotasRequest, "normal")
def all_filters(run: Run) -> None:
    _fill(run)
    user, client, missing = run.name("u1"), run.name("c2"), run.name("missing")
    users = [(USER, EXACT, user), (USER, EXACT, missing), (USER, DEFAULT, None), (USER, ANY, None)]
    clients = [(CLIENT, EXACT, client), (CLIENT, EXACT, missing), (CLIENT, DEFAULT, None), (CLIENT, ANY, None)]
    for strict in (False, True):
        run.ask(asking(strict=strict), pick=own(run))
        for component in (*users, *clients):
            run.ask(asking(component, strict=strict), pick=own(run))
        for one in users:
            for other in clients:
                run.ask(asking(one, other, strict=strict), pick=own(run))
    run.ask(asking(clients[0], users[0]), pick=own(run))


@case(DescribeClientQuotasRequest, "normal")
def of_addresses_too(run: Run) -> None:
    run.do(altering(({IP: "10.9.9.9"}, {CONNECTIONS: 1e6}), ({IP: None}, {CONNECTIONS: 2e6})))
    pick = own(run, "10.9.9.9")
    for strict in (False, True):
        for component in ((IP, EXACT, "10.9.9.9"), (IP, EXACT, "10.9.9.8"), (IP, ANY, None)):
            run.ask(asking(component, strict=strict), pick=pick)
        run.ask(asking((IP, DEFAULT, None), strict=strict))
    run.do(altering(({IP: "10.9.9.9"}, {CONNECTIONS: None}), ({IP: None}, {CONNECTIONS: None})))
    run.ask(asking((IP, ANY, None)), pick=pick)


@case(DescribeClientQuotasRequest, "edge")
def names_and_match_types_that_do_not_fit(run: Run) -> None:
    _fill(run)
    user = run.name("u1")
    for component in (
        (USER, EXACT, None),
        (USER, DEFAULT, user),
        (USER, ANY, user),
        (USER, EXACT, ""),
        (CLIENT, EXACT, ""),
        (USER, EXACT, "<default>"),
        (USER, EXACT, user.upper()),
    ):
        run.ask(asking(component), pick=own(run))
        run.ask(asking(component, strict=True), pick=own(run))


@case(DescribeClientQuotasRequest, "wrong")
def components_that_are_not(run: Run) -> None:
    user = run.name("u")
    for components in (
        [("nonsense", ANY, None)],
        [("", ANY, None)],
        [("User", EXACT, user)],
        [(USER, ANY, None), (USER, EXACT, user)],
        [(CLIENT, ANY, None), (CLIENT, ANY, None)],
        [(IP, ANY, None), (IP, EXACT, "10.0.0.1")],
        [(IP, ANY, None), (USER, ANY, None)],
        [(CLIENT, DEFAULT, None), (IP, ANY, None)],
        [(USER, 3, None)],
        [(USER, 9, user)],
        [(USER, -1, user)],
        [(IP, EXACT, "not an address")],
    ):
        run.ask(asking(*components))
        run.ask(asking(*components, strict=True))
