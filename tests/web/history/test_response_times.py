"""Response times out of the metrics of brokers."""

from __future__ import annotations

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from web.history.response_times import NAME, ResponseTimes, response_times

LINE = NAME.decode()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{request="Produce",quantile="0.99"} 12.5', {"Produce": 12.5}),
        ('{quantile="0.99",request="Produce",} 1.5E1 1700000000000', {"Produce": 15.0}),
        ('{request="Produce",quantile="0.5"} 3', {}),
        ('{request="Heartbeat",quantile="0.99"} 3', {}),
        ('{request="Produce",quantile="0.99"} NaN', {}),
        ('{request="Produce",quantile="0.99"} <script>', {}),
        ('{request="Produce"', {}),
    ],
)
def test_one_percentile_of_some_requests_is_taken(line: str, found: dict[str, float]) -> None:
    assert response_times([LINE.removesuffix("{") + line]) == found


async def test_brokers_tell_them_and_one_that_does_not_answer_tells_none() -> None:
    with EmbeddedBroker(settings={"barnabas.http.port": 0}) as broker:
        assert broker.http is not None
        urls = [f"http://{broker.http}/metrics", "http://127.0.0.1:1/metrics", f"http://{broker.http}/wrong"]
        async with httpx.AsyncClient() as http:
            found = await ResponseTimes(urls, http).told()
        assert list(found) == [broker.http]


async def test_an_answer_without_end_is_read_so_far_only(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = NAME + b'request="Produce",quantile="0.99"} 7\n'
    served = 0

    async def endless() -> object:  # type: ignore[misc]
        nonlocal served
        while True:
            served += len(chunk)
            yield chunk

    monkeypatch.setattr("web.history.response_times.ANSWER_BYTES", 10 * len(chunk))
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport) as http:
        assert await ResponseTimes(["http://b:1/metrics"], http).told() == {"b:1": {"Produce": 7.0}}
    assert served == 11 * len(chunk)
