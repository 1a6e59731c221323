"""Users with SCRAM credentials, as the page lists, makes and deletes them.

Rules: a password is in no answer and no log; brokers are sent its salted hash alone.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from client.admin import scram_users
from security.sasl.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SALT_BYTES
from web.page.routing import RequestBody, page_router
from web.requests import WRITING, Cluster, Parts

router = page_router("Users")
MechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


class Credential(BaseModel):
    mechanism: MechanismName
    iterations: int


class User(BaseModel):
    name: str
    credentials: list[Credential]


class UserList(BaseModel):
    users: list[User]


class NewCredential(RequestBody):
    """Of a user who is new, or whose password changes."""

    name: str = Field(min_length=1)
    password: SecretStr = Field(min_length=1)
    mechanism: MechanismName = "SCRAM-SHA-512"
    iterations: int = Field(DEFAULT_ITERATIONS, ge=MIN_ITERATIONS, le=MAX_ITERATIONS)


class UserDeletion(RequestBody):
    """Without `mechanisms` the user loses all."""

    name: str
    mechanisms: list[MechanismName] | None = None


@router.get("/users")
async def list_users(cluster: Cluster) -> UserList:
    """List the users that have SCRAM credentials."""
    return await _users(cluster)


@router.post("/users", dependencies=[WRITING])
async def set_user(cluster: Cluster, parts: Parts, body: NewCredential) -> UserList:
    """Create a user, or change a password."""
    mechanism = MECHANISMS[body.mechanism]
    salt = parts.surroundings.randomness.randbytes(SALT_BYTES)
    password = body.password.get_secret_value()
    salted = await cluster.blocking(lambda _: mechanism.salted_password(password, salt, body.iterations))
    await cluster.run(scram_users.set_credential(body.name, mechanism, salted, salt, body.iterations))
    return await _users(cluster)


@router.post("/users/delete", dependencies=[WRITING])
async def delete_user(cluster: Cluster, body: UserDeletion) -> UserList:
    """Delete a user's credentials: whoever has none cannot log in."""
    names = body.mechanisms
    if names is None:
        there = await cluster.run(scram_users.list_all())
        names = [each for each in MECHANISMS if each in there.get(body.name, {})]  # type: ignore[misc]
    await cluster.run(scram_users.delete(body.name, [MECHANISMS[each] for each in names]))
    return await _users(cluster)


async def _users(cluster: Cluster) -> UserList:
    found = await cluster.run(scram_users.list_all())
    rows = [
        {
            "name": name,
            "credentials": [{"mechanism": each, "iterations": count} for each, count in sorted(mechanisms.items())],
        }
        for name, mechanisms in sorted(found.items())
        if mechanisms
    ]
    return UserList.model_validate({"users": rows})
