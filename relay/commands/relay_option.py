"""The option by which a command names the relay that it is about."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from config.relay import DEFAULT_NAME
from protocol.topic_names import problem_of_name
from relay.names import RelayNames


def relay_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command's function is called with `names`, those of the relay."""

    @functools.wraps(function)
    def run(*, relay_name: str, **others: Any) -> Any:
        names = RelayNames(relay_name)
        problem = problem_of_name(names.rules)
        if problem is not None:
            raise click.BadParameter(problem, param_hint="--relay")
        return function(names=names, **others)

    option = click.option(
        "--relay", "relay_name", default=DEFAULT_NAME, metavar="NAME", help=f"the name of the relay [{DEFAULT_NAME}]"
    )
    return option(run)
