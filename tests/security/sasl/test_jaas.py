"""Login configurations in JAAS form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.sasl.jaas import LoginModule, parse_login_modules

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} REQUIRED username='a' user_x=y;", {"username": "a", "user_x": "y"}),
        (f'{PLAIN}\n  requisite\n  a="1"\n  b="2" ;\n', {"a": "1", "b": "2"}),
        (f'{PLAIN} sufficient a = "1=2;3" ;', {"a": "1=2;3"}),
        (f'{PLAIN} optional a="q\\"q" b="\\\\" c="\\t\\101\\7";', {"a": 'q"q', "b": "\\", "c": "\tA\7"}),
        (f'{PLAIN} required // a comment\n a="//1" /* b="2" */ c="3";', {"a": "//1", "c": "3"}),
        (f'{PLAIN} required / to the end of the line\n a="1";', {"a": "1"}),
        (f'{PLAIN} required a="first" a="last";', {"a": "last"}),
        (f'{PLAIN} required "a"="1";', {"a": "1"}),
        (f'{PLAIN} required a="";', {"a": ""}),
    ],
)
def test_a_module_with_options(text: str, options: dict[str, str]) -> None:
    assert parse_login_modules(text) == [LoginModule(PLAIN, options)]


def test_several_modules() -> None:
    modules = parse_login_modules('x.A required a="1"; x.B optional;')
    assert [module.short_name for module in modules] == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Login module not specified"),
        ("  // nothing\n", "Login module not specified"),
        (PLAIN, "control flag not specified"),
        (f"{PLAIN} sometimes;", "Invalid login module control flag"),
        (f"{PLAIN} ;", "Invalid login module control flag"),
        (f"{PLAIN} required", "not terminated by semi-colon"),
        (f'{PLAIN} required a="topsecret"', "not terminated by semi-colon"),
        (f"{PLAIN} required topsecret;", "Value not specified"),
        (f"{PLAIN} required topsecret=;", "Value not specified"),
        (f"{PLAIN} required topsecret", "Value not specified"),
        (f"{PLAIN} required =topsecret;", "without an option's name"),
        ("= required;", "does not begin with the name of its class"),
    ],
)
def test_what_is_wrong_is_said_without_a_secret(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as failed:
        parse_login_modules(text)
    assert "topsecret" not in str(failed.value)


def test_a_module_shows_no_options() -> None:
    assert "topsecret" not in repr(parse_login_modules('A required password="topsecret";'))


@given(st.text(alphabet="aA;=\"'/\\* \n1", max_size=40))
def test_any_text_ends(text: str) -> None:
    try:
        modules = parse_login_modules(text)
    except ValueError:
        return
    assert modules
