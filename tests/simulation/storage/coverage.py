"""What the cases of the storage engine must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS = {
    "crashes": 4_000,
    "crash at write": 300,
    "crash at rest of a write": 300,
    "crash at sync": 300,
    "crash at sync names": 300,
    "crash at rename": 200,
    "crash at create": 200,
    "crash at truncate": 200,
    "crash at unlink": 80,
    "did append": 3_000,
    "did flush": 500,
    "did cut": 150,
    "did delete records": 150,
    "did restart": 50,
    "did delete": 50,
    "did transact": 3_000,
    "did follow": 500,
    "did move": 500,
    "logs moved": 600,
    "did fill": 100,
    "refused": 50,
    "compared while open": 2_000,
    "segments went": 300,
    "segments waited": 200,
    "logs cleaned": 200,
    "cleanings finished": 5,
    "torn logs cut": 200,
}
