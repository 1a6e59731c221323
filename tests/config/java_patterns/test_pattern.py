"""Regular expressions of Java beside what Java 17 answered: `python -m tests.oracle.java_patterns`."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from config.java_patterns.pattern import compile_java
from config.java_patterns.reading import InvalidPatternError, UnsupportedPatternError
from tests.oracle.java_patterns import CHARACTERS, recording

RECORDED = recording()
NOT_TRANSLATED = {
    r"(a\1)": "within itself", r"\1(a)": "referred to before", r"\Ga": r"\\G", r"a\G": r"\\G", r"\X": r"\\X",
    r"\b{g}": r"\\b{g}",
    "(?<=a+)b": "look-behind", "(?<=a{1,2})b": "look-behind", "(?<=a*)b": "look-behind", "a{2}{1}": "a quantifier follows",
    "[&&a]": "begins with an intersection", "[a&&]": "no right side", "[a&&&b]": "no right side",
    "[ab&&[bc]&]": "goes on behind", r"(?U)\w": "the flag U", "(?c)a": "the flag c",
    r"\p{IsLatn}": "IsLatn is no property", r"[^\P{IsLatn}]": "IsLatn is no", r"(?i)\p{IsLatn}": "IsLatn is no",
    r"\p{IsGrek}": "IsGrek is no property", r"[^\P{IsGrek}]": "IsGrek is no", r"(?i)\p{IsGrek}": "IsGrek is no",
}  # fmt: skip
"""What Java takes and is refused here, with the reason."""


def verify(name: str, pattern: str, answer: dict[str, Any]) -> None:
    if pattern in NOT_TRANSLATED:
        with pytest.raises(UnsupportedPatternError, match=NOT_TRANSLATED[pattern]):
            compile_java(pattern)
        return
    if "error" in answer:
        with pytest.raises((InvalidPatternError, UnsupportedPatternError)):
            compile_java(pattern)
        return
    compiled, matches, found = compile_java(pattern), "", {}
    for number, text in enumerate(RECORDED["inputs"][name]):
        matches += "01"[compiled.fullmatch(text) is not None]
        match = compiled.search(text)
        if match is not None:
            found[str(number)] = [match[0], *match.groups()]
    assert matches == answer["matches"], pattern
    if name != CHARACTERS:
        assert found == answer["found"], pattern


@pytest.mark.parametrize("part", range(8))
def test_patterns_match_what_they_match_in_java(part: int) -> None:
    for name, pattern, answer in RECORDED["rows"][part::8]:
        verify(name, pattern, answer)


def test_the_recording_has_enough_of_both() -> None:
    answers = [answer for _, _, answer in RECORDED["rows"]]
    assert sum("error" in answer for answer in answers) > 100
    assert sum("1" in answer.get("matches", "") for answer in answers) > 500


@pytest.mark.parametrize(
    "pattern", ["(a", "[a", "*", "a**", r"\y", "a{,2}", "(?<n>a)(?<n>b)", "x\\", r"\x4", r"\p{L", "a)"]
)
def test_what_java_refuses_is_no_pattern(pattern: str) -> None:
    with pytest.raises(InvalidPatternError):
        compile_java(pattern)


def test_a_compiled_pattern_travels() -> None:
    assert pickle.loads(pickle.dumps(compile_java(r"\p{Lu}+"))).fullmatch("ÀÉ")
