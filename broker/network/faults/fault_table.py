"""The faults that are in force: the next requests of an API are answered with an error, later, or by the end of the connection.

Rules: pure. A fault is asked for by names, which are checked before it counts: an API by its name in the table of messages, an
error by its name in `protocol.errors`. Of several faults of one API the first counts until it is used up.
Faults are of clients' requests. What followers ask of their leader has the same APIs as what clients ask, so that it counts
apart: a fault of "FetchFollower" is of their fetches, as Kafka's metrics call them.
Source: the control functions of kfake, the broker in memory of franz-go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from runtime.suggestions import did_you_mean

if TYPE_CHECKING:
    from broker.network.routes import Handler

FOLLOWERS_FETCH = "FetchFollower"
_OF_AUTHENTICATION = frozenset({SaslHandshakeRequest.api_name, SaslAuthenticateRequest.api_name})
_FIELDS = frozenset({"api", "error", "delay_ms", "times", "disconnect"})

_Kind = tuple[int, bool]
"""The key of an API, and whether followers send the request."""


@dataclass(slots=True)
class InjectedFault:
    """What happens to requests. After `delay_ms` a request is refused with `error`, its connection is closed, or it is carried
    out. `remaining` counts the requests that it is still for; None: until it is cleared."""

    error: ErrorCode | None
    delay_ms: int
    closes: bool
    remaining: int | None


class FaultTable:
    """What is in force, empty at first."""

    def __init__(self, handlers: Iterable[Handler[Any]]) -> None:
        self._keys: dict[str, _Kind] = {
            handler.api_name: (handler.api_key, False)
            for handler in handlers
            if handler.api_name not in _OF_AUTHENTICATION
        }
        self._keys[FOLLOWERS_FETCH] = FetchRequest.api_key, True
        self._faults: dict[_Kind, deque[InjectedFault]] = {}

    def inject(self, asked: Mapping[str, object]) -> None:
        """Add a fault: `api`, `error` (None for none), `delay_ms`, `times` (0 or None: until it is cleared), `disconnect`.
        Raises ValueError."""
        unknown = sorted(asked.keys() - _FIELDS)
        if unknown:
            raise ValueError(f"a fault has no {', '.join(unknown)}")
        api = asked.get("api")
        if not isinstance(api, str) or api not in self._keys:
            raise ValueError(self._not_an_api(api))
        delay_ms, times = _count(asked, "delay_ms", 0), _count(asked, "times", 1)
        closes = bool(asked.get("disconnect", False))
        error = None if asked.get("error") is None else _error(asked["error"])
        if error is not None and closes:
            raise ValueError("a fault is an error or the end of the connection, not both")
        if error is None and not closes and not delay_ms:
            raise ValueError("a fault needs an error, a delay_ms or disconnect")
        self._faults.setdefault(self._keys[api], deque()).append(InjectedFault(error, delay_ms, closes, times or None))

    def clear(self) -> None:
        """End all faults. Requests that are late stay so."""
        self._faults.clear()

    @property
    def left(self) -> int:
        """For how many requests there are faults, without those that are in force until they are cleared."""
        return sum(fault.remaining or 0 for faults in self._faults.values() for fault in faults)

    def of(self, api_key: int, *, is_follower: bool) -> InjectedFault | None:
        """Return the fault of the next request, which counts once `use` is called."""
        faults = self._faults.get((api_key, is_follower))
        return faults[0] if faults else None

    def use(self, api_key: int, fault: InjectedFault, *, is_follower: bool) -> None:
        """Count a request that a fault was for."""
        if fault.remaining is not None:
            fault.remaining -= 1
            if not fault.remaining:
                self._faults[api_key, is_follower].popleft()

    def _not_an_api(self, api: object) -> str:
        if api in _OF_AUTHENTICATION:
            return f"there are no faults of {api}, which is part of the authentication"
        return f"there is no API {api!r}{did_you_mean(str(api), self._keys)}"


def _count(asked: Mapping[str, object], name: str, default: int) -> int:
    """Return a number; 0 for None. Raises ValueError."""
    value = asked.get(name, default)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}={value!r}: must be a number of at least 0")
    return value


def _error(name: object) -> ErrorCode:
    """Return an error by its name. Raises ValueError."""
    names = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    if name not in names:
        raise ValueError(f"there is no error {name!r}{did_you_mean(str(name), names)}")
    return ErrorCode[str(name)]
