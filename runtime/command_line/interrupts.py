"""Ctrl-C as an exception, and whether it has come: the client library may lose what is raised while it calls back."""

from __future__ import annotations

import signal
from typing import NoReturn


class _Interrupts:
    has_come = False

    def listen(self) -> None:
        """Have Ctrl-C raise KeyboardInterrupt, unless somebody wants it to be ignored."""
        self.has_come = False
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, self._raise)

    def leave(self) -> None:
        """Have Ctrl-C end the process: whoever runs has no order to keep yet, or handles it in its own way."""
        if signal.getsignal(signal.SIGINT) == self._raise:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _raise(self, _number: int, _frame: object) -> NoReturn:
        self.has_come = True
        raise KeyboardInterrupt


INTERRUPTS = _Interrupts()
"""Of this process."""
