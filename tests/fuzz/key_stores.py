"""Fuzzing of the readers of key stores: `python -m tests.fuzz.key_stores --cases 100000 [--seed 1]`.

Mutated stores of JKS and PKCS12, most of them without encryption and read without a password, so that the damage gets past
every check, and random bytes. Whoever reads them gets certificates or ValueError and nothing else, in memory that the size of
the file bounds.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
import time
import tracemalloc

from security.tls.key_store import read_key_store, read_trust_store
from tests.fuzz.mutation import mutate
from tests.oracle.key_stores import KEY_PASSWORD, PASSWORD, STORES

_NAMES = (
    "JKS keys with chain, and trusted", "JKS several", "JKS trusted only", "PKCS12 of OpenSSL, not encrypted",
    "PKCS12 without a password", "PKCS12 several", "PKCS12 algorithms 0",
)  # fmt: skip
_OF_SIZE = 64
_ALWAYS_BYTES = 1 << 20


def check(data: bytes) -> int:
    """How many of the reads succeeded."""
    taken = 0
    for password in (None, PASSWORD):
        for key_password in (PASSWORD, KEY_PASSWORD):
            try:
                found = read_key_store(data, password, key_password)
            except ValueError:
                continue
            assert found.chain
            assert all(found.chain)
            taken += 1
        try:
            assert all(read_trust_store(data, password))
        except ValueError:
            continue
        taken += 1
    return taken


def run(seed: int, count: int) -> int:
    """How many of `count` cases something was read of."""
    source = random.Random(seed)
    recorded = json.loads(STORES.read_text())["stores"]
    stores = [base64.b64decode(recorded[name]) for name in _NAMES]
    taken = 0
    tracemalloc.start()
    try:
        for number in range(count):
            data = (
                source.randbytes(source.randint(0, 200)) if number % 20 == 0 else mutate(source.choice(stores), source)
            )
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                taken += check(data) > 0
                assert tracemalloc.get_traced_memory()[1] - before < _ALWAYS_BYTES + _OF_SIZE * len(data)
            except BaseException:
                print(
                    f"case {number} of: python -m tests.fuzz.key_stores --seed {seed} --cases {count}", file=sys.stderr
                )
                print(data.hex(), file=sys.stderr)
                raise
    finally:
        tracemalloc.stop()
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.key_stores")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.monotonic()
    taken = run(options.seed, options.cases)
    print(f"{options.cases} stores, {taken} of them read, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
