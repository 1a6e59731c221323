"""Tests that are coroutines, and what runs them: the root `conftest.py` with `asyncio.run`, these decorators in virtual time or
on what a test module makes for each of its tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from inspect import Parameter, Signature, signature
from typing import Any

from tests.simulation.loop import simulate

Test = Callable[..., Coroutine[Any, Any, None]]


def played_by(
    play: Callable[..., None], *fixtures: str, gives: int = 1, **options: Any
) -> Callable[[Test], Callable[..., None]]:
    """Have `play(*fixtures, program, **options)` run the test, whose first parameters are what `play` gives its program."""

    def decorate(test: Test) -> Callable[..., None]:
        own = list(signature(test).parameters.values())[gives:]

        def run(**given: Any) -> None:
            arguments = {parameter.name: given[parameter.name] for parameter in own}
            play(*(given[name] for name in fixtures), lambda *subject: test(*subject[:gives], **arguments), **options)

        update_wrapper(run, test)
        known = {parameter.name for parameter in own}
        wanted = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in fixtures if name not in known]
        run.__signature__ = Signature([*wanted, *own])  # type: ignore[attr-defined]  # what pytest goes by
        return run

    return decorate


def simulated(seed: int) -> Callable[[Test], Callable[..., None]]:
    """Run the test in virtual time. It may have a parameter `loop`, the first one."""

    def decorate(test: Test) -> Callable[..., None]:
        return played_by(partial(simulate, seed), gives=int("loop" in signature(test).parameters))(test)

    return decorate
