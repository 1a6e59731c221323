"""A web process in tests: as the application in this process, which is quick, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from fastapi import APIRouter, FastAPI

from client.settings.parsing import parse_client
from config.web import WebSettings
from tests.web.description import Description
from web.application import create_application
from web.command import PAGE_DEFAULTS
from web.surroundings import Surroundings

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
BASE_URI = "http://127.0.0.1:8082"
WRITES = {"barnabas.web.write.enable": "true"}


_DESCRIPTIONS: list[Description] = []


def _description(application: FastAPI) -> Description:
    """The description of the application, which takes half a second and is the same each time."""
    if not _DESCRIPTIONS:
        _DESCRIPTIONS.append(Description(application.openapi()))
        application.openapi_schema = None  # endpoints may be added
    return _DESCRIPTIONS[0]


@asynccontextmanager
async def app_client(
    servers: str,
    settings: Mapping[str, str] | None = None,
    surroundings: Surroundings | None = None,
    *,
    router: APIRouter | None = None,
    peer: str = "127.0.0.1",
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application in this process, on this event loop, over the brokers `servers`. Each answer is checked
    against the application's OpenAPI description. `router` has endpoints of the test's own; `peer` is the address from which
    the client comes."""
    given = {"bootstrap.servers": servers, **(settings or {})}
    own = WebSettings(given)
    application = create_application(
        own,
        parse_client(given, PAGE_DEFAULTS, needs_user=False),
        surroundings or Surroundings(),
        own.barnabas_web_base_uri or BASE_URI,
    )
    description = _description(application)
    if router is not None:
        application.include_router(router)
    async with (
        application.router.lifespan_context(application),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(application, client=(peer, 5_000)),
            base_url=BASE_URI,
            event_hooks={"response": [description.check]},
        ) as client,
    ):
        yield client


@dataclass(frozen=True)
class WebProcess:
    """A running `barnabas web`; `url` has no slash at its end."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def running_web(servers: str, settings: Mapping[str, str] | None = None) -> Iterator[WebProcess]:
    """A web process on a free port of loopback, which is stopped in order."""
    given = {"bootstrap.servers": servers, "barnabas.web.port": "0", **(settings or {})}
    overrides = [word for name, value in given.items() for word in ("--override", f"{name}={value}")]
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "barnabas.cli", "web", *overrides, "--ready-fd", str(writing)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, cwd=ROOT, pass_fds=[writing], stderr=log) as process,
    ):
        os.close(writing)
        try:
            with os.fdopen(reading) as ready:
                told = ready.readline()
            assert told, process.wait(PATIENCE_S)
            yield WebProcess(json.loads(told)["address"], process)
        except BaseException as error:
            log.seek(0)
            error.add_note(log.read().decode()[-6_000:])
            raise
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
