"""All rules of a relay, as the topic of the rules says them, and which of them hold. Pure.

    replay(key, value)     a record of that topic, in the order of its offsets; None as value removes the rule
    judge(verdicts)        whether the principals of these very rules may do what the rules do
    active()               the rules that hold
    suspended()            the others, with the reason

Rules: a record that is no rule suspends what was a rule of its source before, since nobody knows what was meant. A rule holds
only after it was judged; one that has changed is another rule and is judged anew. Rules in a circle would deliver for ever: all
of them are suspended; one that leads into the circle holds. The relay's own topics are no sources and no targets; its topic of
dead letters may be named as such.
Invariant: what holds depends on the last record of each source and on the verdicts, not on the order of the records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from protocol.topic_names import problem_of_name
from relay.names import RelayNames
from relay.rules.rule import Rule, RuleError, shown

NOT_JUDGED: Final = "its rights were not checked yet"
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
"""Topics of brokers, which clients do not write."""


class RuleTable:
    """The rules of the relay that has these names."""

    def __init__(self, names: RelayNames) -> None:
        self._names = names
        self._rules: dict[str, Rule] = {}
        self._problems: dict[str, str] = {}
        self._odd_keys: dict[str, bytes] = {}  # keys that are no names of topics, by what stands for them
        self._verdicts: dict[Rule, str | None] = {}
        self._circles: dict[str, str] | None = None

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the topic of the rules. Whatever it contains, it does not raise."""
        source = _source_of(key)
        if value is None:
            self._odd_keys.pop(source, None)
        elif key is not None and source.encode() != key:
            self._odd_keys[source] = key
        old = self._rules.pop(source, None)
        self._problems.pop(source, None)
        self._circles = None
        if value is not None:
            try:
                self._rules[source] = self._parsed(source, value)
            except RuleError as error:
                self._problems[source] = str(error)
        if old is not None and self._rules.get(source) != old:
            self._verdicts.pop(old, None)

    def key_of(self, source: str) -> bytes:
        """Return the key of the record of a source, as `suspended` and `active` name it."""
        return self._odd_keys.get(source) or source.encode()

    def rules(self) -> list[Rule]:
        """Return all rules that can be read, whether they hold or not."""
        return list(self._rules.values())

    def not_judged(self) -> list[Rule]:
        """Return the rules whose rights have to be checked first."""
        return [rule for rule in self._rules.values() if rule not in self._verdicts]

    def judge(self, verdicts: Mapping[Rule, str | None]) -> None:
        """Take what a check of rights has found: for each rule what is missing, or None. Rules that it does not name keep the
        verdict that they have; those that are not here any more are passed over."""
        self._verdicts |= {rule: verdict for rule, verdict in verdicts.items() if self._rules.get(rule.source) == rule}

    def active(self) -> dict[str, Rule]:
        """Return the rules that hold, by their source topics."""
        suspended = self.suspended()
        return {source: rule for source, rule in self._rules.items() if source not in suspended}

    def suspended(self) -> dict[str, str]:
        """Return why rules do not hold, by their source topics, or by the key of a record that names none."""
        if self._circles is None:
            self._circles = circles(self._rules.values())
        found = self._problems | self._circles
        for source, rule in self._rules.items():
            verdict = self._verdicts.get(rule, NOT_JUDGED)
            if verdict is not None and source not in found:
                found[source] = verdict
        return found

    def _parsed(self, source: str, value: bytes) -> Rule:
        rule = Rule.parse(source, value)
        problem = problem_of_topics(rule, self._names)
        if problem is not None:
            raise RuleError(problem)
        return rule


def problem_of_topics(rule: Rule, names: RelayNames) -> str | None:
    """Return why the relay with these names cannot have the rule, by the topics that it names; None when it can."""
    topics = {"source": rule.source, "target": rule.target, "dead_letters": rule.dead_letters, "results": rule.results}
    for member, topic in topics.items():
        if topic in INTERNAL_TOPICS:
            return f"{member} is {topic}, a topic of the brokers"
        if topic in names.topics and not (member == "dead_letters" and topic == names.dead_letters):
            return f"{member} is {topic}, a topic of the relay itself"
    return None


def circles(rules: Iterable[Rule]) -> dict[str, str]:
    """Return the sources of rules whose records come back to them, by this rule and others, with a text of their way."""
    by_source = {rule.source: rule for rule in rules}
    following = {
        source: [topic for topic in rule.destinations if topic in by_source] for source, rule in by_source.items()
    }
    found: dict[str, str] = {}
    for component in _components(following):
        if len(component) > 1:
            found |= {source: f"rules in a circle: {_way(source, component, following)}" for source in component}
    return found


def _components(following: Mapping[str, Collection[str]]) -> list[frozenset[str]]:
    """Return the strongly connected parts of a graph (Tarjan's algorithm, without recursion)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []
    done: set[str] = set()
    for start in following:
        if start in order:
            continue
        order[start] = lowest[start] = len(order)
        stack.append(start)
        work = [(start, iter(following[start]))]
        while work:
            node, left = work[-1]
            for each in left:
                if each not in order:
                    order[each] = lowest[each] = len(order)
                    stack.append(each)
                    work.append((each, iter(following[each])))
                    break
                if each not in done:
                    lowest[node] = min(lowest[node], order[each])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    done |= set(component)
                    found.append(frozenset(component))
    return found


def _way(source: str, component: Collection[str], following: Mapping[str, Collection[str]]) -> str:
    """Return the shortest way from a topic back to it."""
    came_from: dict[str, str] = {}
    reached = [source]
    for node in reached:
        for each in following[node]:
            if each == source:
                way = [node]
                while way[-1] != source:
                    way.append(came_from[way[-1]])
                return " -> ".join([*reversed(way), source])
            if each in component and each not in came_from:
                came_from[each] = node
                reached.append(each)
    raise AssertionError(f"{source} is in no circle")


def _source_of(key: bytes | None) -> str:
    """Return the source topic, or a printable text that stands for a key that names none."""
    if key is None:
        return "a record without key"
    try:
        source = key.decode()
    except UnicodeDecodeError:
        return shown(key)
    return source if problem_of_name(source) is None else shown(key)
