"""`--execute`: the one rule for what destroys.

Rules: a command whose effect no second command takes back (records, topics, groups, offsets, ACLs, members, transactions, the
place of replicas), or that keeps brokers or clients out (feature levels), checks everything, shows what it would do and changes
nothing; with --execute it does it. Everything else acts at once. --dry-run says what is so anyway: it is for scripts that were
written for kafka-consumer-groups.sh.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

Function = Callable[..., Any]


def execute_option(effect: str, *names: str) -> Callable[[Function], Function]:
    """The command's function is called with `execute`. `effect` completes "--execute: ...", such as "delete"; `names` are
    other names of the option."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*, execute: bool, dry_run: bool, **others: Any) -> Any:
            if execute and dry_run:
                raise click.UsageError("--execute and --dry-run do not go together")
            return function(execute=execute, **others)

        dry_run = click.option(
            "--dry-run", is_flag=True, help="show what would change, and change nothing (the default)"
        )
        return click.option("--execute", *names, is_flag=True, help=f"{effect}; without it, it is only shown")(
            dry_run(run)
        )

    return decorate
