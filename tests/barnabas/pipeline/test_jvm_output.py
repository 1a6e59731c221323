"""What a JVM writes while it starts is shown only when it fails."""

from __future__ import annotations

import os

import pytest

from barnabas.pipeline.jvm_output import JvmOutput, start_failure


def test_what_was_written_before_the_start_is_dropped_and_the_rest_passed_on() -> None:
    shown, target = os.pipe()
    output = JvmOutput(target)
    jvm = os.dup(output.descriptor)
    os.write(jvm, b"WARNING: Using incubator modules\n")
    output.started()
    os.write(jvm, b"a task says something\n")
    assert os.read(shown, 1000) == b"a task says something\n"
    os.write(jvm, b"and more")
    assert os.read(shown, 1000) == b"and more"
    for descriptor in (jvm, shown, target):
        os.close(descriptor)


def test_what_a_jvm_wrote_that_failed_is_there() -> None:
    output = JvmOutput()
    jvm = os.dup(output.descriptor)
    os.write(jvm, b"WARNING: Using incubator modules\nno \xff memory\n")
    os.close(jvm)
    assert output.failed() == "WARNING: Using incubator modules\nno \ufffd memory\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "it ended without a message"),
        ("a\n\n  b \n", "b"),
        (
            ':: problems summary ::\n  not found\nException in thread "main" java.lang.RuntimeException: [unresolved '
            "dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]\n\tat a.B.c(D.scala:1)\n",
            "java.lang.RuntimeException: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]",
        ),
        (
            "Error: Could not find or load main class X\nCaused by: java.lang.ClassNotFoundException: X\n",
            "java.lang.ClassNotFoundException: X",
        ),
    ],
)
def test_the_reason_of_a_failed_start_is_one_line(text: str, line: str) -> None:
    assert start_failure(text) == line
