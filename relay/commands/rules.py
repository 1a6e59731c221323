"""`barnabas relay rules`: the rules of a relay are listed, added, removed, checked, and taken from a file.

Rules: what is written is a record of the relay's topic of rules, which the processes of the relay follow: nothing is asked of
them. Before a rule is written, its topics, its way and the rights of its principal are checked as the relay will check them.
Nothing is created but with `--create-topics`. Whoever removes a rule, or lets a file replace all, does it with `--execute`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import click

from client.admin import acls as acl_steps
from client.admin import topics as topic_steps
from client.admin.acls import AclWords
from client.event_loop.producer import AsyncProducer
from client.event_loop.whole_log import read_whole
from client.reading.positions import ReadRecord
from client.settings.values import ClientSettings
from config.acl_settings import AclSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableTopic
from relay.commands.loop import NewClient, on_loop
from relay.commands.relay_option import relay_option
from relay.names import RelayNames
from relay.rules.authorisation import HIDDEN, judged
from relay.rules.checks import Survey, problems, survey
from relay.rules.documents import RuleChange, changes, document_of, rules_of
from relay.rules.rule import Partitioner, Rule, RuleError, RuleKind
from relay.rules.table import RuleTable
from relay.topics import rules_topic, wrong_settings
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure, InvalidUse
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.randomness import system_randomness
from runtime.texts import count_text
from security.principal import ANONYMOUS, USER_TYPE, Principal
from tools.cluster import CHANGE_TIMEOUT_MS, Cluster, cluster_command
from tools.failures import told
from tools.names_given import some_names

_COLUMNS: Final = (
    "source", "kind", "target", "delay_ms", "partitioner", "dead_letters", "results", "principal", "state",
)  # fmt: skip
_OK: Final = "ok"
_PARTITION: Final = 0
"""The topic of the rules has one partition, in which all rules are in order."""

command = Commands("rules", help="Rules of a relay: from which topics it delivers records, when, and into which.")


_creates_topics = click.option("--create-topics", is_flag=True, help="create the topics that are missing")


@command.command("list")
@relay_option
@cluster_command
def list_rules(cluster: Cluster, output: Output, *, names: RelayNames) -> None:
    """List the rules of a relay. The state is ok, or why a rule does not hold, as far as the rules themselves say it: `check`
    looks at topics and rights, too. With --json the output is a file for `apply`."""
    table = _RulesTopic(cluster, names).read()
    suspended = table.suspended()
    rules = sorted(table.rules(), key=lambda rule: rule.source)
    if output.as_json:
        output.document(document_of(rules, suspended))
        return
    rows = [_row(rule, suspended.get(rule.source, _OK)) for rule in rules]
    unreadable = sorted(suspended.keys() - {rule.source for rule in rules})
    output.table(rows + [{"source": source, "state": suspended[source]} for source in unreadable], _COLUMNS)


@command.command("add")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--delay", metavar="DURATION", help="deliver so long after a record's timestamp, unless its headers say a time: "
              "90s, 1h, PT1H30M [0s]")  # fmt: skip
@click.option("--retry-after", metavar="1s,10s,1m", help="instead: bring failed records back after the first, the second ... "
              "of these; who fails more often is a dead letter")  # fmt: skip
@click.option("--partitioner", type=click.Choice([each.value for each in Partitioner]), default=Partitioner.MURMUR2.value,
              help="which partition of TARGET: by the key as Java's clients or librdkafka choose it, or that of the same "
              "number [murmur2]")  # fmt: skip
@click.option(
    "--dead-letters", metavar="TOPIC", help="where records go that cannot be delivered [NAME-dead of the relay]"
)
@click.option(
    "--results", metavar="TOPIC", help="where it is told which records were cancelled or came too late [nowhere]"
)
@click.option("--principal", metavar="User:NAME", help="whose rights on the topics count [whoever runs the command]")
@click.option("--replace", is_flag=True, help="change the rule that SOURCE has")
@_creates_topics
@relay_option
@cluster_command
def add_rule(
    cluster: Cluster, output: Output, *, names: RelayNames, replace: bool, create_topics: bool, **others: Any
) -> None:
    """Let the relay deliver records of SOURCE into TARGET, later or once more."""
    place = _RulesTopic(cluster, names)
    rule = place.with_principal(_rule(**others))
    table = place.read()
    before = {each.source: each for each in table.rules()}.get(rule.source)
    if before == rule:
        output.result(rule.members(), f"{rule.source}: has this rule already")
        return
    if before is not None and not replace:
        raise Failure(f"{rule.source} has another rule: {before.to_json().decode()} (--replace changes it)")
    table.replay(rule.source.encode(), rule.to_json())
    place.check(table, [rule], creates_topics=create_topics)
    place.write(table, [RuleChange(rule.source, before, rule)])
    output.result(rule.members(), f"{rule.source}: {'added' if before is None else 'changed'}")


@command.command("remove")
@some_names("source")
@execute_option("remove the rules")
@relay_option
@cluster_command
def remove_rules(
    cluster: Cluster, output: Output, *, sources: tuple[str, ...], names: RelayNames, execute: bool
) -> None:
    """Remove the rules of SOURCES. Records that wait stay where they are, and go on when their source has a rule again. A dry
    run, unless --execute is given."""
    place = _RulesTopic(cluster, names)
    table = place.read()
    there = {rule.source: rule for rule in table.rules()}
    unreadable = table.suspended().keys() - there.keys()
    missing = [source for source in sources if source not in there and source not in unreadable]
    if missing:
        raise Failure(f"there is no rule of {', '.join(missing)} (`barnabas relay rules list` shows the rules)")
    wanted = [RuleChange(source, there.get(source), None) for source in sources]
    if execute:
        place.write(table, wanted)
    _show(output, wanted)
    if not execute:
        Output.note("nothing was removed: --execute removes these rules")


@command.command("check")
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option("--relay-principal", metavar="User:NAME", help="check also whether the relay, which logs in as this user, may do "
              "what the rules do")  # fmt: skip
@relay_option
@cluster_command
def check_rules(
    cluster: Cluster, output: Output, *, file: str | None, relay_principal: str | None, names: RelayNames
) -> int:
    """Check the rules of a relay with its own topics, or those of FILE: their topics with settings, circles, and the rights of
    their principals by the ACLs. Exit code 1 when one has a problem."""
    place = _RulesTopic(cluster, names)
    table = place.read() if file is None else _table_of(names, _rules_of_file(file))
    found = table.suspended()
    rows = [{"source": source, "problem": problem} for source, problem in sorted(found.items())]
    rules = [rule for rule in table.rules() if rule.source not in found]
    rows += [
        {"source": rule.source, "problem": problem}
        for rule, some in place.problems(rules, cluster.run(survey(rules))).items()
        for problem in some
    ]
    if relay_principal is not None:
        rows += [
            {"source": source, "problem": f"the relay: {problem}"}
            for source, problem in place.lacking_of(relay_principal, rules).items()
        ]
    if file is None:
        rows += [{"source": topic, "problem": problem} for topic, problem in cluster.run(wrong_settings(names)).items()]
    output.table(rows, ("source", "problem"))
    if not rows:
        Output.note(f"{count_text(len(rules), 'rule')} without a problem")
    return int(bool(rows))


@command.command("apply")
@click.argument("file", type=click.Path(dir_okay=False))
@execute_option("change the rules")
@_creates_topics
@relay_option
@cluster_command
def apply_rules(
    cluster: Cluster, output: Output, *, file: str, names: RelayNames, execute: bool, create_topics: bool
) -> None:
    """Let the relay have the rules of FILE and no others. A dry run, unless --execute is given.

    FILE is a JSON object like {"rules": [{"source": "in", "kind": "delay", "target": "out"}]}; `list --json` prints one."""
    place = _RulesTopic(cluster, names)
    rules = [place.with_principal(rule) for rule in _rules_of_file(file)]
    table = place.read()
    before = {rule.source: rule for rule in table.rules()}
    wanted = changes(before, table.suspended().keys() - before.keys(), rules)
    changed = [each.after for each in wanted if each.after is not None]
    place.check(_table_of(names, rules), changed, creates_topics=create_topics and execute, may_create=create_topics)
    if execute:
        place.write(table, wanted)
    _show(output, wanted)
    if not wanted:
        Output.note("the relay has these rules already")
    elif not execute:
        Output.note("nothing was changed: --execute does it")


class _RulesTopic:
    """The topic of the rules of a relay, and what is asked of its cluster."""

    def __init__(self, cluster: Cluster, names: RelayNames) -> None:
        self._cluster = cluster
        self._names = names
        self._randomness = system_randomness()

    def read(self) -> RuleTable:
        """Return the rules as the topic has them, none where it is missing, with their rights not judged. Raises KafkaError."""
        table = RuleTable(self._names)

        def take(records: list[ReadRecord]) -> None:
            for each in records:
                table.replay(each.record.key, each.record.value)

        async def work(new_client: NewClient) -> None:
            await read_whole(new_client(), self._randomness, {(self._names.rules, _PARTITION): None}, take)

        if self._exists():
            on_loop(self._cluster, self._randomness, work)
        table.judge(dict.fromkeys(table.rules()))
        return table

    def write(self, table: RuleTable, wanted: Sequence[RuleChange]) -> None:
        """Write changes of what the table has read, in their order. Raises KafkaError."""

        async def work(new_client: NewClient) -> None:
            producer = AsyncProducer(new_client(), self._cluster.clock.wall_ms, self._randomness)
            try:
                deliveries = [
                    await producer.send(
                        self._names.rules,
                        None if each.after is None else each.after.to_json(),
                        table.key_of(each.source),
                        partition=_PARTITION,
                    )
                    for each in wanted
                ]
                for delivery in deliveries:
                    await delivery
            finally:
                await producer.close()

        if wanted:
            on_loop(self._cluster, self._randomness, work)

    def with_principal(self, rule: Rule) -> Rule:
        """Return a rule with the principal of whoever runs the command, if it names none and the cluster has an authorizer.
        Raises Failure when nobody knows who that is; KafkaError."""
        if rule.principal is not None or not self._has_authorizer():
            return rule
        caller = caller_of(self._cluster.settings.client)
        if caller is None:
            raise Failure(
                f"{rule.source}: the cluster has an authorizer, and this login does not tell its user: name the principal"
            )
        return Rule.of_members(rule.members() | {"principal": caller})

    def check(
        self, table: RuleTable, rules: Collection[Rule], *, creates_topics: bool, may_create: bool = False
    ) -> None:
        """Check rules before they are written into a table that has them already; create what is missing if so wished. With
        `may_create` missing topics are noted. What does not keep a rule from holding is noted. Raises Failure, KafkaError."""
        table.judge(dict.fromkeys(table.rules()))
        suspended = table.suspended()
        bad = [f"{rule.source}: {suspended[rule.source]}" for rule in rules if rule.source in suspended]
        if bad:
            raise Failure("; ".join(bad))
        found = self._cluster.run(survey(rules))
        missing = list(dict.fromkeys(name for rule in rules for name in found.missing(rule)))
        has_rules_topic = self._exists()
        if not has_rules_topic:
            missing.append(self._names.rules)
        if missing and not (creates_topics or may_create):
            raise Failure(f"there is no topic {', '.join(missing)} (--create-topics creates what is missing)")
        lacking = self._lacking(rules, found)
        if lacking:
            raise Failure("; ".join(f"{rule.source}: {reason}" for rule, reason in lacking.items()))
        if missing and creates_topics:
            self._create(missing)
            found = self._cluster.run(survey(rules))
        for rule in rules:
            for problem in problems(rule, found):
                Output.note(f"{rule.source}: {problem}")

    def problems(self, rules: Collection[Rule], found: Survey) -> dict[Rule, list[str]]:
        """Return what is wrong with rules, rights among it. Raises KafkaError."""
        said = {rule: problems(rule, found) for rule in rules}
        for rule, reason in self._lacking(rules, found).items():
            said[rule].append(reason)
        return said

    def lacking_of(self, principal: str, rules: Collection[Rule]) -> dict[str, str]:
        """Return what one user may not do of what rules do, by their sources. Raises InvalidUse, KafkaError."""
        try:
            as_user = [Rule.of_members(rule.members() | {"principal": principal}) for rule in rules]
        except RuleError as error:
            raise InvalidUse(f"--relay-principal: {error}") from error
        verdicts = self._cluster.run(judged(as_user, AclSettings())) if rules else {}
        return {rule.source: verdict for rule, verdict in verdicts.items() if verdict is not None}

    def _lacking(self, rules: Collection[Rule], found: Survey) -> dict[Rule, str]:
        """Return what principals of rules lack, as far as that can be known; note where it cannot. Whoever runs the command
        is told the own rights by brokers, those of super users among them. Raises KafkaError."""
        caller = caller_of(self._cluster.settings.client)
        lacking: dict[Rule, str] = {}
        for rule, verdict in self._cluster.run(judged(rules, AclSettings())).items() if rules else ():
            lacks = found.lacks(rule) if rule.principal == caller else []
            if verdict is None or (rule.principal == caller and verdict == HIDDEN and not lacks):
                continue
            if lacks:
                lacking[rule] = f"{caller} has not {', '.join(lacks)}"
            elif rule.principal == caller:
                Output.note(
                    f"{rule.source}: ACLs do not say that {caller} may do this from every address: if brokers have super users "
                    "or allow.everyone.if.no.acl.found, the relay's barnabas.relay settings of these names must say so"
                )
            elif verdict == HIDDEN:
                Output.note(f"{rule.source}: the rights of {rule.principal} are not checked: {HIDDEN}")
            else:
                lacking[rule] = verdict
        return lacking

    def _has_authorizer(self) -> bool:
        try:
            self._cluster.run(acl_steps.describe(AclWords("topic", self._names.rules, "match")))
        except KafkaError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                return False
            if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
        return True

    def _exists(self) -> bool:
        """Return whether the topic of the rules exists. Raises KafkaError when that is not told."""
        [found] = self._cluster.run(topic_steps.describe([self._names.rules])).values()
        if isinstance(found, KafkaError) and found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise found
        return not isinstance(found, KafkaError)

    def _create(self, missing: Iterable[str]) -> None:
        """Create topics with the brokers' numbers of partitions and replicas, and that of the rules as the relay does. Raises
        Failure."""
        wanted = {
            name: CreatableTopic(
                name=name,
                num_partitions=topic_steps.NOT_ASSIGNED,
                replication_factor=topic_steps.NOT_ASSIGNED,
                assignments=[],
                configs=[],
            )
            for name in missing
        }
        if self._names.rules in wanted:
            wanted[self._names.rules] = self._cluster.run(rules_topic(self._names))
        created = self._cluster.run(
            topic_steps.create(wanted, CHANGE_TIMEOUT_MS, validate_only=False), CHANGE_TIMEOUT_MS
        )
        failed = [f"topic {name}: {told(error)}" for name, error in created.items() if error is not None]
        if failed:
            raise Failure("; ".join(failed))
        for name in wanted:
            Output.note(f"topic {name}: created")


def caller_of(settings: ClientSettings) -> str | None:
    """Return the principal as which brokers know a client, by its settings; None where only they know it."""
    login = settings.login
    if login is None:
        return str(ANONYMOUS) if settings.tls is None or settings.tls.keys is None else None
    if login.is_token or login.bearer is not None or not login.username:
        return None
    return str(Principal(USER_TYPE, login.username))


def _rule(
    *,
    source: str,
    target: str,
    delay: str | None,
    retry_after: str | None,
    partitioner: str,
    dead_letters: str | None,
    results: str | None,
    principal: str | None,
) -> Rule:
    """Return the rule that the options say. Raises click.UsageError, InvalidUse."""
    if delay is not None and retry_after is not None:
        raise click.UsageError("--delay and --retry-after do not go together")
    members: dict[str, Any] = {"source": source, "target": target, "partitioner": partitioner}
    if retry_after is not None:
        delays = [parsing.duration_ms(each.strip(), "--retry-after") for each in retry_after.split(",")]
        members |= {"kind": RuleKind.RETRY.value, "delays_ms": delays}
    else:
        delay_ms = 0 if delay is None else parsing.duration_ms(delay, "--delay")
        members |= {"kind": RuleKind.DELAY.value, "delay_ms": delay_ms}
    given = {"dead_letters": dead_letters, "results": results, "principal": principal}
    try:
        return Rule.of_members(members | {name: value for name, value in given.items() if value is not None})
    except RuleError as error:
        raise InvalidUse(str(error)) from error


def _rules_of_file(path: str) -> list[Rule]:
    """Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            return rules_of(file.read())
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except (RuleError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: {error}") from error


def _table_of(names: RelayNames, rules: Iterable[Rule]) -> RuleTable:
    table = RuleTable(names)
    for rule in rules:
        table.replay(rule.source.encode(), rule.to_json())
    table.judge(dict.fromkeys(table.rules()))
    return table


def _row(rule: Rule, state: str) -> dict[str, Any]:
    delays = rule.delays_ms if rule.kind is RuleKind.RETRY else (rule.delay_ms,)
    return rule.members() | {"delay_ms": list(delays), "partitioner": rule.partitioner.value, "state": state}


def _show(output: Output, wanted: Sequence[RuleChange]) -> None:
    if output.as_json:
        output.document(
            [
                {
                    "source": each.source,
                    "change": each.word,
                    "before": None if each.before is None else each.before.members(),
                    "after": None if each.after is None else each.after.members(),
                }
                for each in wanted
            ]
        )
        return
    rows = [
        {
            "source": each.source,
            "change": each.word,
            "before": each.before and each.before.to_json().decode(),
            "after": each.after and each.after.to_json().decode(),
        }
        for each in wanted
    ]
    output.table(rows, ("source", "change", "before", "after"))
