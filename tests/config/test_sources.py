"""Properties files and environment variables."""

from __future__ import annotations

import pytest

from config.sources import properties_of, read_properties, setting_of_variable, settings_in_environment


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 \n", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("# no\n! no\n\n  \na=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n   c,\\\r\n\td", {"a": "b,c,d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
        ("a\\ b\\:c\\==x", {"a b:c=": "x"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=\\u00e9\\u20AC", {"a": "é€"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("  a=1\r\rb=2", {"a": "1", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_reads_properties_as_java_does(text: str, found: dict[str, str]) -> None:
    assert read_properties(text) == found


def test_a_bad_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        read_properties("a=\\u12x4")


def test_each_property_has_the_number_of_its_first_line() -> None:
    found = properties_of("# a comment\n\na=1\nb=\\\n  2\n! another\na=3")
    assert [(one.name, one.value, one.line) for one in found] == [("a", "1", 3), ("b", "2", 4), ("a", "3", 7)]


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("kafka_log_dirs", "log.dirs"),
        ("KAFKA_BARNABAS_HTTP_PORT", "barnabas.http.port"),
        ("KAFKA_MY__OWN___NAME", "my_own-name"),
    ],
)
def test_variables_become_names(variable: str, name: str) -> None:
    assert setting_of_variable(variable) == name


def test_only_kafkas_settings_are_taken_from_the_environment() -> None:
    environment = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET": "x",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "-D",
        "KAFKA_JVM_PERFORMANCE_OPTS": "-server",
        "KAFKA_LOG4J_OPTS": "-D",
        "KAFKA_CREATE_TOPICS": "a:1",
        "PATH": "/bin",
        "HOME": "/",
    }
    found = settings_in_environment(environment, ["num.partitions", "zookeeper.clientCnxnSocket"])
    assert found == {"num.partitions": "3", "zookeeper.clientCnxnSocket": "x"}
