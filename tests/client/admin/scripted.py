"""A shell that carries steps out by script: it hands back what a test says, and keeps what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from client.admin.steps import AnyRequest, AskPlaces, Forget, KeyKind, Locate, Place, Retry, Steps
from protocol.errors import KafkaError
from protocol.schema import Request

T = TypeVar("T")


class ScriptedShell:
    """`answer` gives the response of a place to a request; `places` are those of keys. It retries `retries` times. `versions`
    are those that brokers know of a request, if not the newest."""

    def __init__(
        self,
        answer: Callable[[int | Place, Request], Any],
        places: Callable[[KeyKind, Any], int | KafkaError] = lambda _kind, _key: 1,
        retries: int = 0,
        versions: Mapping[type[Request], int] | None = None,
    ) -> None:
        self.asked: list[tuple[int | Place, Request]] = []
        self.retried: list[str] = []
        self.forgotten: list[str] = []
        self._answer = answer
        self._places = places
        self._retries = retries
        self._versions = versions or {}

    def run(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                result = self._carry_out(steps.send(result))
        except StopIteration as end:
            value: T = end.value
            return value

    def _carry_out(self, step: AskPlaces | Locate | Retry | Forget) -> Mapping[Any, Any] | bool | None:
        if isinstance(step, Locate):
            return {key: self._places(step.kind, key) for key in step.keys}
        if isinstance(step, Forget):
            self.forgotten += [error.code.name for error in step.errors]
            return None
        if isinstance(step, Retry):
            self.retried += [error.code.name for error in step.errors]
            self._retries -= 1
            return self._retries >= 0
        found = {}
        for place, asked in step.requests.items():
            found[place] = self._answered(place, asked)
        return found

    def _answered(self, place: int | Place, asked: AnyRequest) -> Any:
        try:
            request = (
                asked
                if isinstance(asked, Request)
                else asked.in_version(self._versions.get(asked.kind, asked.kind.max_version))
            )
        except KafkaError as error:
            return error
        self.asked.append((place, request))
        return self._answer(place, request)
