"""Calls of the client library during which it calls back.

Rules: a Ctrl-C that comes while the library calls back is a Ctrl-C, and an error that ends the client is that error, whatever
the library makes of it: a SystemError, an object that is no exception, or nothing at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from runtime.command_line.interrupts import INTERRUPTS
from tools.client_log import FATAL_ERRORS

T = TypeVar("T")
_LOST = "returned NULL without setting an exception"
_FATAL: int = KafkaError._FATAL  # noqa: SLF001  the library's name for its public code


def called(method: Callable[..., T], *arguments: Any) -> T:
    """Raises KafkaException when the client has ended, KeyboardInterrupt."""
    try:
        return method(*arguments)
    except SystemError as error:  # a function was called back while an exception was there already
        raise _meant(error) from error
    except BaseException:
        raise
    except:  # noqa: E722  the library raises its KafkaError, which is no exception
        raise KafkaException(sys.exc_info()[1]) from None


def _meant(error: SystemError) -> BaseException:
    cause: BaseException | None = error.__cause__
    if isinstance(cause, KeyboardInterrupt):
        return KeyboardInterrupt()
    if _LOST in str(error) and INTERRUPTS.has_come:
        return KeyboardInterrupt()
    meant: BaseException = error
    if isinstance(cause, KafkaException):
        meant = KafkaException(*cause.args)
    elif _LOST in str(error):
        meant = KafkaException(KafkaError(_FATAL, FATAL_ERRORS.text))
    return meant
