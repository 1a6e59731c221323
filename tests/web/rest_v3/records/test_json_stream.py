"""The objects of a stream, however its bytes are divided."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from web.rest_v3.records.json_stream import JsonStream, JsonStreamError

LETTERS = '{}[]",:\\ \n\0aä☃𝄞'


def some_value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(6 if depth < 4 else 4)
    if kind < 2:
        return some_text(random)
    if kind < 4:
        return random.choice([None, True, -1.5, 10**20])
    if kind < 5:
        return [some_value(random, depth + 1) for _ in range(random.randrange(4))]
    return {some_text(random): some_value(random, depth + 1) for _ in range(random.randrange(4))}


def some_text(random: Random) -> str:
    return "".join(random.choices(LETTERS, k=random.randrange(12)))


def objects(stream: JsonStream, chunks: list[bytes]) -> list[dict[str, Any]]:
    return [found for chunk in chunks for found in stream.feed(chunk)]


@pytest.mark.parametrize("seed", range(200))
def test_objects_come_out_as_they_went_in(seed: int) -> None:
    random = Random(seed)
    wanted = [{some_text(random): some_value(random)} for _ in range(random.randrange(6))]
    between, is_ascii = random.choice(["", "\n", " \r\n\t "]), random.random() < 0.5
    content = "".join(json.dumps(each, ensure_ascii=is_ascii) + between for each in wanted).encode()
    places = sorted({0, len(content), *random.choices(range(len(content) + 1), k=random.randrange(20))})
    stream = JsonStream(10_000)
    assert objects(stream, [content[a:b] for a, b in pairwise(places)]) == wanted
    stream.end()
    assert stream.waiting_chars == 0


def test_an_object_is_given_with_its_last_byte() -> None:
    stream = JsonStream(100)
    content = b'{"a": "}\\"{", "b": [{}]}'
    found = [objects(stream, [bytes([byte])]) for byte in content]
    assert found == [*([] for _ in content[1:]), [{"a": '}"{', "b": [{}]}]]


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        ([b"[]"], 400),
        ([b"x"], 400),
        ([b'{"a": tru}'], 400),
        ([b'{"a": NaN}'], 400),
        ([b'{"a": 1e999}'], 400),
        ([b'{"a": ', b"]}"], 400),
        ([b'{"a": ]'], 400),
        ([b'{"a": "\xff"}'], 400),
        ([b'{"a":' * 100_000], 400),
        ([b'{"a": ' + b"9" * 5_000 + b"}"], 400),
        ([b'{"a": "', b"x" * 60_000, b"x" * 60_000], 413),
        ([b'{"a": 1'], 400),
        ([b'{"a": "\xc3'], 400),
    ],
)
def test_what_is_no_object_ends_the_stream(chunks: list[bytes], status: int) -> None:
    stream = JsonStream(100_000)

    def read() -> None:
        objects(stream, chunks)
        stream.end()

    with pytest.raises(JsonStreamError) as raised:
        read()
    assert raised.value.status == status


def test_objects_before_a_mistake_are_given() -> None:
    found = JsonStream(100).feed(b'{"a":1} {"b":2} oops')
    assert [next(found), next(found)] == [{"a": 1}, {"b": 2}]
    with pytest.raises(JsonStreamError):
        next(found)
