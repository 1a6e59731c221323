"""Stores that Java, OpenSSL and Bouncy Castle made, with what Apache Kafka on Java showed and trusted: recorded by
`python -m tests.oracle.key_stores`."""

from __future__ import annotations

import base64
import json

import pytest

from security.stores.java_order import order_of_jks, order_of_pkcs12
from tests.oracle.key_stores import STORES
from tests.security.stores.java_answers import verify

RECORDED = json.loads(STORES.read_text())
CASES = {
    name: [case for case in RECORDED["cases"] if name in (case.get("trust"), case.get("keys"))]
    for name in RECORDED["stores"]
}


@pytest.mark.parametrize("name", CASES)
def test_a_store_has_the_entries_that_java_reads(name: str) -> None:
    store = base64.b64decode(RECORDED["stores"][name])
    own = next((case for case in CASES[name] if case["type"] == name.split()[-2]), CASES[name][0])
    for case in CASES[name]:
        verify(case, store, own)


def test_of_several_aliases_the_one_is_first_that_java_chooses() -> None:
    for case in RECORDED["orders"]:
        order = order_of_jks if case["type"] == "JKS" else order_of_pkcs12
        assert order(case["aliases"])[0] == case["chosen"], case
