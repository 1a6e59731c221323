"""The extras: packages that only some commands need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extra:
    """`modules` are what it brings."""

    name: str
    modules: frozenset[str]

    @property
    def line(self) -> str:
        return f'needs the extra {self.name}: in a clone, pip install ".[{self.name}]"'

    def brings(self, module: str | None) -> bool:
        return (module or "").partition(".")[0] in self.modules

    @property
    def sentence(self) -> str:
        return f"It {self.line}."


CLI = Extra("cli", frozenset({"confluent_kafka"}))
SPARK = Extra("spark", frozenset({"numpy", "pyarrow", "pyspark"}))
WEB = Extra(
    "web",
    frozenset(
        {
            "authlib",
            "fastapi",
            "fastavro",
            "google",
            "httptools",
            "httpx",
            "jsonpath_rfc9535",
            "pydantic",
            "pydantic_core",
            "starlette",
            "typing_extensions",
            "uvicorn",
        }
    ),
)
