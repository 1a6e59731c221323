"""`barnabas topics`, `barnabas consume` and the others: finds the command, runs it, and turns its end into an exit code.

Rules: a command's module is imported only when it runs, because all of them together take longer than one. Once it is imported,
Ctrl-C is an exception: consumers leave their groups, and what is incomplete says so. Whoever reads the output may close it.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from runtime.clock import SystemClock
from runtime.texts import visible
from tools.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from tools.interrupts import INTERRUPTS
from tools.names import ALIASES, COMMANDS
from tools.output import STATUS
from tools.parsing import is_text

BEGUN_MS = "tools.begun_ms"
"""Where the context has when the command began, monotonic: to import what it needs takes its time, too."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*COMMANDS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return self.commands.get(name)
        command: click.Command = importlib.import_module(f"tools.commands.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        INTERRUPTS.listen()
        ctx.meta[BEGUN_MS] = SystemClock().monotonic_ms()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has read enough
            _discard_output()
            return 0


root = _Commands("barnabas", help="Commands for any Kafka cluster.")


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return its exit code: 0, 1 when it failed, 2 for wrong options, 130 after a Ctrl-C."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the encoding does not have ends no command
    unreadable = next((each for each in arguments if not is_text(each)), None)
    if unreadable is not None:  # the client libraries end the process for it
        click.echo(f"barnabas: the argument {visible(unreadable)} is no UTF-8", err=True)
        return EXIT_USAGE
    STATUS.begin()
    try:
        code = root.main(list(arguments), prog_name="barnabas", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        STATUS.clear()
        shown = io.StringIO()
        error.show(shown)
        click.echo(visible(shown.getvalue(), keeps_lines=True), nl=False, err=True)
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `| head` has read enough
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        click.echo(f"barnabas: the output cannot be written: {error.strerror}", err=True)
        _discard_output()
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _open_what_is_closed() -> None:
    """Give a command whose parent has closed its input or output an empty one: it may still do something."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  for as long as the process lives


def _discard_output() -> None:
    """What is still in the buffer goes nowhere, instead of failing once more at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
