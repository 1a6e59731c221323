"""Why a port could not be opened, with what helps, in one line. Pure."""

from __future__ import annotations

import errno

_HELP = {
    errno.EADDRINUSE: "another program has this port, which `ss -ltnp` names; stop it, or set another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; a listener without host takes all that it has, "
    "and clients are told that of advertised.listeners",
    errno.EACCES: "ports below 1024 are for root; set another port",
}


def listen_error(where: str, error: OSError) -> OSError:
    """Return the error for the setting or listener `where`."""
    text = f"{where}: {error.strerror or error}"
    help_text = _HELP.get(error.errno or 0)
    return OSError(f"{text} ({help_text})" if help_text else text)
