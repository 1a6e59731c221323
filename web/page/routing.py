"""The router of the page's endpoints, with the form of their errors.

Rules: what is named by its users (groups, users, transactional ids) stands in the query or the body, never in the path: such
names may hold slashes. A change is a POST, whose body says what.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict


class Problem(BaseModel):
    """`code` is Kafka's name of an error, or one of this server; `next` is what helps, if anything general does."""

    code: str
    message: str
    next: str


class ProblemBody(BaseModel):
    error: Problem


class RequestBody(BaseModel):
    """A body of a request: a name that is not known is an error, since it would change nothing."""

    model_config = ConfigDict(extra="forbid")


class PartitionName(RequestBody):
    topic: str
    partition: int

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


def page_router(tag: str) -> APIRouter:
    """Return a router whose addresses begin with /api."""
    responses: dict[int | str, dict[str, Any]] = {
        "4XX": {"model": ProblemBody, "description": "The request is refused."},
        "5XX": {"model": ProblemBody, "description": "The cluster or this server fails."},
    }
    return APIRouter(prefix="/api", responses=responses, tags=[tag])
