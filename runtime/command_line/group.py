"""The tree of commands: finds the command, runs it, and turns its end into an exit code.

Rules: a command's module is imported only when it runs, because all of them together take longer than one. From then on Ctrl-C
is an exception: consumers leave their groups, and what is incomplete says so. Whoever reads the output may close it. What needs
an extra says so in its help, and says what to type where the extra is not installed.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from runtime.clock import SystemClock
from runtime.command_line.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from runtime.command_line.extras import Extra
from runtime.command_line.failure import Failure, InvalidUse, line_of
from runtime.command_line.interrupts import INTERRUPTS
from runtime.command_line.output import STATUS, OutputError, discard_output, print_problem
from runtime.command_line.parsing import is_text
from runtime.suggestions import did_you_mean
from runtime.texts import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

BEGUN_MS = "barnabas.begun_ms"
"""Where the context has when the command began, monotonic: to import what it needs takes its time, too."""
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@dataclass(frozen=True, slots=True)
class Entry:
    """A command of the first level: the module whose `command` it is, a line about it, and the title above it in the help."""

    module: str
    help: str
    section: str
    extra: Extra | None = None

    @property
    def takes_text(self) -> bool:
        """Return whether its arguments go to a cluster, which takes UTF-8; others may be paths."""
        return self.module.startswith(("tools.", "relay."))


class Commands(click.Group):
    """Commands below a word. Without any it shows its help, and for one that there is not the nearest. `aliases` are other
    names, which no help shows."""

    def __init__(
        self, name: str | None = None, aliases: Mapping[str, str] = MappingProxyType({}), **options: Any
    ) -> None:
        super().__init__(name, **{"context_settings": HELP_OPTIONS} | options)
        self._aliases = aliases

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self._aliases.get(cmd_name, cmd_name))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(EXIT_USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            hint = did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"unknown command {visible(name)}{hint}", ctx)
        return super().resolve_command(ctx, [self._aliases.get(name, name), *args[1:]])


class CommandLine(Commands):
    """The first level, whose commands are in a table. `refused` are the sections that cannot run here, with the reason."""

    def __init__(
        self,
        name: str,
        table: Mapping[str, Entry],
        *,
        refused: Mapping[str, str | None] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        super().__init__(name, **options)
        self.table = table
        self._refused = refused

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Raises Failure for one that cannot run here, or whose extra is not installed."""
        del ctx
        name = self._aliases.get(cmd_name, cmd_name)
        entry = self.table.get(name)
        if entry is None:
            return None
        refusal = self._refused.get(entry.section)
        if refusal is not None:
            raise Failure(f"`{self.name} {name}` {refusal}")
        try:
            command: click.Command = importlib.import_module(entry.module).command
        except ModuleNotFoundError as error:
            if entry.extra is None or not entry.extra.brings(error.name):
                raise
            raise Failure(f"`{self.name} {name}` {entry.extra.line}") from None
        command.short_help = entry.help
        if entry.extra is not None:
            _say_at_the_end(command, entry.extra.sentence)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        entry = self.table.get(self._aliases.get(args[0], args[0]))
        unreadable = next((each for each in args if not is_text(each)), None)
        if unreadable is not None and entry is not None and entry.takes_text:
            raise InvalidUse(f"the argument {visible(unreadable)} is no UTF-8")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands of each section, without importing them."""
        del ctx
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.table.items():
            needed = "" if entry.extra is None else f" (extra {entry.extra.name})"
            rows.setdefault(entry.section, []).append((name, f"{entry.help}{needed}"))
        for title, listed in rows.items():
            with formatter.section(title):
                formatter.write_dl(listed)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion needs it

        names = [name for name in self.table if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self.table[name].help) for name in names), *options]

    def invoke(self, ctx: click.Context) -> Any:
        INTERRUPTS.listen()
        ctx.meta[BEGUN_MS] = SystemClock().monotonic_ms()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None
        except BrokenPipeError as error:
            raise OutputError from error


def _say_at_the_end(command: click.Command, text: str) -> None:
    """Have the help of a command, and of those below it, end with a text."""
    if not (command.epilog or "").endswith(text):
        command.epilog = f"{command.epilog}\n\n{text}" if command.epilog else text
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _say_at_the_end(inner, text)


def run(root: click.Command, arguments: Iterable[str], name: str = "barnabas") -> int:
    """Run a command, and return its exit code: 0, 1 when it failed, 2 for wrong options, 130 after a Ctrl-C."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the encoding does not have ends no command
    STATUS.begin()
    try:
        code = root.main(list(arguments), prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        STATUS.clear()
        print_problem(line_of(error))
        return error.exit_code
    except click.Abort:
        STATUS.clear()
        return EXIT_INTERRUPTED
    except (OutputError, OSError) as error:
        cause = error.__cause__ if isinstance(error, OutputError) else error
        assert isinstance(cause, OSError)
        is_enough = isinstance(cause, BrokenPipeError)  # `| head` has read what it wants
        if not is_enough and isinstance(error, OSError) and error.errno not in _NO_ROOM:
            raise
        discard_output()
        if is_enough:
            return 0
        click.echo(f"barnabas: the output cannot be written: {cause.strerror}", err=True)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _open_what_is_closed() -> None:
    """Give a command whose parent has closed its input or output an empty one: it may still do something."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  for as long as the process lives
