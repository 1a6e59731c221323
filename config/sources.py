"""The sources of static settings: Java properties files and environment variables.

Rules: pure; text in, names and values out. Source: java.util.Properties.load; the variables' rule is that of the Kafka
container images: KAFKA_ in front, `.` as `_`, `_` as `__`, `-` as `___`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

PREFIX = "KAFKA_"

# Variables with the prefix that are no settings, but for the JVM, the start scripts, or our commands.
NOT_SETTINGS = frozenset(
    """KAFKA_OPTS KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_GC_LOG_OPTS KAFKA_LOG4J_OPTS KAFKA_LOG4J_LOGGERS
    KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_LOG4J_CMD_OPTS KAFKA_JMX_OPTS KAFKA_JMX_PORT
    KAFKA_JMX_HOSTNAME KAFKA_DEBUG KAFKA_MODE KAFKA_HOME KAFKA_VERSION KAFKA_CREATE_TOPICS""".split()  # noqa: SIM905  a paragraph of words
)

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATORS = "=:"
_BLANKS = " \t\f"


@dataclass(frozen=True, slots=True)
class Property:
    """A name with its value, and the number of the line, from 1, on which it begins."""

    name: str
    value: str
    line: int


def read_properties(text: str) -> dict[str, str]:
    """Parse names and values of a `.properties` text; the last of equal names wins. Raises ValueError at a bad escape."""
    return {one.name: one.value for one in properties_of(text)}


def properties_of(text: str) -> Iterator[Property]:
    """Iterate over names and values of a `.properties` text as they stand there. Raises ValueError at a bad escape."""
    for number, line in _logical_lines(text):
        name, value = _split(line)
        yield Property(_unescape(name), _unescape(value), number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over lines that are no comments and not blank, with their numbers; lines that end in an unescaped backslash are
    joined."""
    joined, begun = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = natural.lstrip(_BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        joined += line
        trailing_backslashes = len(joined) - len(joined.rstrip("\\"))
        if trailing_backslashes % 2:
            joined = joined[:-1]
            continue
        yield begun, joined
        joined, begun = "", 0
    if joined:
        yield begun, joined


def _split(line: str) -> tuple[str, str]:
    """Split a line at the first unescaped separator or blank."""
    position = 0
    while position < len(line) and line[position] not in _SEPARATORS + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(_BLANKS)
    if rest[:1] and rest[0] in _SEPARATORS:
        rest = rest[1:].lstrip(_BLANKS)
    return name, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ValueError(f"malformed \\u escape: \\u{digits}")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Two \\u escapes may make one character outside the basic plane.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def settings_in_environment(environment: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """Return the settings among environment variables, by wire name."""
    spelling = {name.lower(): name for name in known}
    found: dict[str, str] = {}
    for variable, value in environment.items():
        if variable.upper().startswith(PREFIX) and variable.upper() not in NOT_SETTINGS:
            name = setting_of_variable(variable)
            found[spelling.get(name, name)] = value
    return found


def setting_of_variable(variable: str) -> str:
    """`KAFKA_LOG_SEGMENT_BYTES` -> `log.segment.bytes`."""
    marks = {1: ".", 2: "_", 3: "-"}
    return re.sub(r"_{1,3}", lambda run: marks[len(run.group())], variable[len(PREFIX) :]).lower()
