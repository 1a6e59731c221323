"""What a command is about, named as an argument or by the option that the kafka-*.sh tools have for it: `consume orders` is
`consume --topic orders`.

Rules: names are given once. Where several may be named, the option may be repeated. The names of topics have no commas, so that
one value may hold several of them; any other name is taken as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import click

_WITHOUT_COMMAS = ("topic",)
"""What is never called by a name with a comma."""
Function = Callable[..., Any]


def one_name(kind: str, *, is_required: bool = True) -> Callable[[Function], Function]:
    """The command's function is called with the name as argument `kind`, such as "topic"; None for none."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*, argument_name: str | None, option_name: str | None, **others: Any) -> Any:
            given = [name for name in (argument_name, option_name) if name is not None]
            if len(given) > 1 or (is_required and not given):
                raise click.UsageError(f"name one {_words(kind)}: as an argument, or by --{_dashed(kind)}")
            _check(given, kind)
            return function(**{kind: given[0] if given else None}, **others)

        option = click.option(
            f"--{_dashed(kind)}", "option_name", metavar="NAME", help=f"the {_words(kind)}, by its option"
        )
        return click.argument("argument_name", metavar=kind.upper(), required=False)(option(run))

    return decorate


def some_names(kind: str, *, is_required: bool = True) -> Callable[[Function], Function]:
    """The command's function is called with a tuple of names as argument `kind` in the plural: "topics"."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*, argument_names: tuple[str, ...], option_names: tuple[str, ...], **others: Any) -> Any:
            if argument_names and option_names:
                raise click.UsageError(f"name {_words(kind)}s as arguments, or by --{_dashed(kind)}")
            names = argument_names or option_names
            if option_names and kind in _WITHOUT_COMMAS:
                names = tuple(name for text in option_names for name in text.split(","))
            if is_required and not names:
                raise click.UsageError(f"name a {_words(kind)}: as an argument, or by --{_dashed(kind)}")
            _check(names, kind)
            return function(**{f"{kind}s": tuple(dict.fromkeys(names))}, **others)

        option = click.option(f"--{_dashed(kind)}", "option_names", multiple=True, metavar="NAME",
                              help=f"a {_words(kind)}, by its option; may be repeated")  # fmt: skip
        return click.argument("argument_names", metavar=f"{kind.upper()}S...", nargs=-1)(option(run))

    return decorate


def _check(names: Iterable[str], kind: str) -> None:
    """Raises click.UsageError."""
    if not all(names):
        raise click.UsageError(f"the name of a {_words(kind)} is empty")


def _dashed(kind: str) -> str:
    return kind.replace("_", "-")


def _words(kind: str) -> str:
    return kind.replace("_", " ")
