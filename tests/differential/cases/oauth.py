"""SaslAuthenticate with OAUTHBEARER: unsecured tokens, which a case can write, and the two steps of a failure."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.differential.cases.sasl import begin, new_wire
from tests.differential.play import SASL, Run, case

ACKNOWLEDGEMENT = b"\x01"


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token(**changed: Any) -> str:
    """An unsecured token; a claim that is changed to None is missing."""
    now_s = int(time.time())
    claims = {"sub": "alice", "scope": "kafka", "iat": now_s - 10, "exp": now_s + 600, **changed}
    return f"{part({'alg': 'none'})}.{part({name: value for name, value in claims.items() if value is not None})}."


def first(text: str, identity: str = "", extensions: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {text}{extensions}\x01\x01".encode()


def exchange(run: Run, *messages: bytes) -> None:
    """On a connection of their own, until it is closed."""
    wire = new_wire(run)
    begin(run, "OAUTHBEARER", wire=wire)
    for message in messages:
        answer = wire.ask(SaslAuthenticateRequest(auth_bytes=message), run.version, 60)
        run.note(
            answer.outcome
            if not isinstance(answer, SaslAuthenticateResponse)
            else {
                "error_code": answer.error_code,
                "said": answer.error_message,
                "auth_bytes": repr(bytes(answer.auth_bytes)),
                "ends": answer.session_lifetime_ms > 0,
            }
        )


@case(SaslHandshakeRequest, "edge", stage=SASL)
def a_mechanism_with_bearer_tokens(run: Run) -> None:
    run.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"))


@case(SaslAuthenticateRequest, "normal", stage=SASL)
def bearer_tokens(run: Run) -> None:
    exchange(run, first(token()))
    exchange(run, first(token(), "a=alice"))
    exchange(run, first(token(scope=["other", "kafka"]), extensions="\x01traceId=7\x01pool=a b"))
    exchange(run, first(token(iat=None)).replace(b"Bearer ", b"bearer   "))


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def bearer_tokens_that_are_refused_in_two_steps(run: Run) -> None:
    now_s = int(time.time())
    signed = f"{part({'alg': 'RS256'})}.{part({'sub': 'alice', 'exp': now_s + 600})}.AAAA"
    for text in (
        *(
            token(exp=None),
            token(exp=now_s - 1),
            token(exp="soon"),
            token(iat=now_s + 500),
            token(iat=now_s, exp=now_s),
        ),
        *(token(sub=None), token(sub=7), token(sub=""), token(scope=None), token(scope="other"), token(scope=7)),
        *(signed, token() + "AAAA", "a.b.c", "x", token()[:-1], token() + "."),
    ):
        exchange(run, first(text), ACKNOWLEDGEMENT)


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def bearer_messages_that_are_malformed(run: Run) -> None:
    good = token()
    for message in (
        *(
            b"",
            b"\x01",
            b"n,,",
            b"n,,\x01\x01",
            first(good)[:-1],
            first(good)[1:],
            first(good, "b=alice"),
            first(good, "a="),
        ),
        *(first(good).replace(b"auth", b"key"), first(good + " x")),
        *(
            first(good, extensions="\x01k1=v"),
            first(good, extensions="\x01k="),
            first(good) + b"x",
            b"\xff" + first(good),
        ),
    ):
        exchange(run, message)


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def a_bearer_token_for_somebody_else(run: Run) -> None:
    exchange(run, first(token(), "a=bob"))


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def another_bearer_token_behind_a_refusal(run: Run) -> None:
    exchange(run, first(token(exp=None)), first(token()))


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def another_scheme_than_bearer(run: Run) -> None:
    exchange(run, first(token()).replace(b"Bearer", b"Basic"))
