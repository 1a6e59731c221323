"""Joins the parts of the web process to one ASGI application: the interfaces, the page's files, errors.

    /v3/...                     Confluent's REST v3
    /topics, /consumers, ...    Confluent's REST v2
    /api/...                    what the page needs beyond them
    /ui/...                     the page: every address of it is the same file
    /static/...                 the page's files

Rules: an error has the form of the interface that was asked. What is not caught by anything is logged, and answered without
its text. REST v2 and v3 serve an address with a slash at its end as without it, as Confluent's examples write it; nobody is
redirected to an address that is made of the request's Host.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from protocol.errors import KafkaError
from runtime.command_line.failure import Failure
from web.access import oauth_routes
from web.access import routes as access_routes
from web.access.access import Access
from web.access.gate import Gate
from web.balancing.balances import Balances
from web.checking.checkups import Checkups
from web.cluster.users import UserClusters
from web.errors import HttpProblem
from web.history import routes as history_routes
from web.history.room import HistoryRoom, sampling_client
from web.messages import routes as messages
from web.messages.parts import MessageParts
from web.page import balance, brokers, features, groups, health, partitions, quotas, topics, transactions
from web.page import users as user_routes
from web.parts import WebParts
from web.rest_v2 import routes as rest_v2
from web.rest_v2.instances import ConsumerInstances
from web.rest_v3 import routes as rest_v3
from web.rest_v3.records.large import LargeRecords
from web.schemas.registry import registry_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from client.settings.values import ClientSettings
    from config.web import WebSettings
    from web.surroundings import Surroundings

ROUTERS: Final = (
    access_routes.router,
    oauth_routes.router,
    balance.router,
    brokers.router,
    features.router,
    groups.router,
    health.router,
    history_routes.router,
    messages.router,
    partitions.router,
    quotas.router,
    rest_v2.router,
    rest_v3.router,
    topics.router,
    transactions.router,
    user_routes.router,
)
PUBLISHED: Final = ("/v3/", "/brokers/", "/consumers/", "/topics/")
"""How addresses of Confluent's interfaces begin."""
STATIC: Final = Path(__file__).parent / "static"
logger = logging.getLogger(__name__)


def create_application(
    settings: WebSettings, client: ClientSettings, surroundings: Surroundings, base_uri: str
) -> FastAPI:
    """Return the application; what it opens is closed when its lifespan ends. `base_uri` is where it is reached."""
    users = UserClusters(client, surroundings)
    has_user = client.login is not None and client.login.has_user
    own = client if has_user else sampling_client(settings, client)
    access = Access(settings, client, own, surroundings, users, base_uri)
    schemas = registry_of(settings, surroundings)
    parts = WebParts(
        settings=settings,
        client=client,
        surroundings=surroundings,
        users=users,
        base_uri=base_uri.rstrip("/"),
        schemas=schemas,
        access=access,
        consumers=ConsumerInstances(settings, surroundings, schemas),
        messages=MessageParts.of(settings, surroundings),
        history=HistoryRoom(settings, client, users, surroundings),
        balances=Balances(surroundings),
        checkups=Checkups(surroundings),
        large_records=LargeRecords(),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.history.start()
        try:
            async with access.looked_after():
                yield
        finally:
            await parts.balances.close()
            await parts.checkups.close()
            await parts.consumers.close()
            await parts.history.close()
            await users.close()
            await surroundings.close()

    application = FastAPI(
        title="Barnabas",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
        max_body_size=settings.barnabas_web_request_max_bytes,
    )
    application.state.parts = parts
    _add_errors(application)
    application.add_middleware(Gate, access=access)
    for each in ROUTERS:
        application.include_router(each)
    _add_page(application)
    _serve_with_slash(application)
    return application


def _serve_with_slash(application: FastAPI) -> None:
    """Serve addresses of Confluent's interfaces with a slash at the end, too, where none of their own has it."""
    router = application.router
    not_found = router.default

    async def without_slash(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.endswith("/") and path.startswith(PUBLISHED):
            await router.app({**scope, "path": path.rstrip("/")}, receive, send)
        else:
            await not_found(scope, receive, send)

    router.default = without_slash


def _add_page(application: FastAPI) -> None:
    application.mount("/static", StaticFiles(directory=STATIC), name="static")

    @application.get("/", include_in_schema=False)
    @application.get("/ui", include_in_schema=False)
    def root() -> RedirectResponse:
        return RedirectResponse("/ui/")

    @application.get("/ui/{_path:path}", include_in_schema=False)
    def page(_path: str) -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def _add_errors(application: FastAPI) -> None:
    @application.exception_handler(HttpProblem)
    async def problem(request: Request, error: HttpProblem) -> Response:
        return error.response(request.url.path)

    @application.exception_handler(KafkaError)
    async def of_cluster(request: Request, error: KafkaError) -> Response:
        return HttpProblem.of(error).response(request.url.path)

    @application.exception_handler(Failure)
    async def refused(request: Request, error: Failure) -> Response:
        return HttpProblem.of_tools(error).response(request.url.path)

    @application.exception_handler(OSError)
    async def unreachable(request: Request, error: OSError) -> Response:
        return HttpProblem.of(error).response(request.url.path)

    @application.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        texts = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        return HttpProblem(422, "; ".join(texts), code="INVALID").response(request.url.path)

    @application.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        found = HttpProblem(error.status_code, str(error.detail), headers=error.headers)
        return found.response(request.url.path)

    @application.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        logger.error("request failed: path=%r", request.url.path, exc_info=error)
        return HttpProblem(500, "this is a fault of the server: its log tells more").response(request.url.path)
