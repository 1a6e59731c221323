"""How a command ends that does not do what it was asked for: one line on standard error, which begins with `barnabas: `."""

from __future__ import annotations

import click

from runtime.command_line.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from runtime.suggestions import did_you_mean
from runtime.texts import visible


class Failure(click.ClickException):
    """A command failed; its text is the reason."""

    exit_code = EXIT_FAILED


class Interrupted(Failure):
    """A Ctrl-C has ended a command; its text is how far it came."""

    exit_code = EXIT_INTERRUPTED


class InvalidUse(Failure):
    """An option or a setting cannot be what it is; the text says why."""

    exit_code = EXIT_USAGE


def line_of(error: click.ClickException) -> str:
    """Return what is told of an error: its line, and of one in the options another that names their `--help`."""
    text = visible(error.format_message(), keeps_lines=True)
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return f"barnabas: {text}"
    if isinstance(error, click.NoSuchOption):
        names = [
            name for each in error.ctx.command.get_params(error.ctx) for name in (*each.opts, *each.secondary_opts)
        ]
        text = f"unknown option {visible(error.option_name)}{did_you_mean(error.option_name, names)}"
    return f"barnabas: {text}\n`{error.ctx.command_path} --help` shows what can be given"
