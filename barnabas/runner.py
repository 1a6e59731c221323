"""The first file of a broker process: puts the server's folder first on `sys.path` and runs it.

Started as `python -I runner.py ...`, so that neither PYTHONPATH nor the current folder can put other people's packages
named `config` or `broker` in front. Imports nothing else of this package.
Rules: until a command says what Ctrl-C means to it there is nothing to put in order, and it ends the process as a signal does:
an exception in the middle of an import would be a page of text. `barnabas.cli` holds a Ctrl-C back until it comes here.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

COMPLETION = "_BARNABAS_COMPLETE"
"""What a shell sets when it asks for completions."""
HERE = os.path.dirname(os.path.abspath(__file__))


def server_folder() -> str:
    """Where the server's packages are: inside the installed package, or the root of a checkout."""
    installed = os.path.join(HERE, "_server")
    return installed if os.path.isdir(installed) else os.path.dirname(HERE)


def run() -> int:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it to be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.path.insert(0, server_folder())
    # Isolated mode leaves out the user's site-packages; when this package lives there, so do its dependencies.
    packages = os.path.dirname(HERE)
    if packages not in sys.path:
        sys.path.append(packages)
    from tools.names import ALIASES, COMMANDS  # noqa: PLC0415  the path above comes first

    if COMPLETION in os.environ:
        return run_tool([], completes=True)
    arguments = [ALIASES.get(word, word) for word in sys.argv[1:2]] + sys.argv[2:]
    if arguments and arguments[0] in COMMANDS:
        return run_tool(arguments)
    from broker.__main__ import main  # noqa: PLC0415

    return main(arguments, COMMANDS)


def all_commands() -> click.Group:
    """Return the command line with the server's commands, for completion and man pages: those are not run from there. Raises
    ModuleNotFoundError without the extra `cli`."""
    from broker.__main__ import command_parser  # noqa: PLC0415  the path of `run` comes first
    from tools.command import root  # noqa: PLC0415
    from tools.server_commands import server_commands  # noqa: PLC0415

    for command in server_commands(command_parser({})):
        root.add_command(command)
    return root


def run_tool(arguments: list[str], *, completes: bool = False) -> int:
    """Run a command of the extra `cli`, or say how to get it. With `completes` a shell asks for completions."""
    try:
        from tools.command import main  # noqa: PLC0415

        if completes:
            all_commands()
    except ModuleNotFoundError as error:
        if error.name not in ("click", "confluent_kafka", "kafka", "rich"):
            raise
        if completes:
            return 1  # nobody reads what it says
        message = f'barnabas: `barnabas {arguments[0]}` needs the extra cli: in a clone, pip install ".[cli]"'
        print(message, file=sys.stderr)  # noqa: T201  a command's result
        return 1
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run())
