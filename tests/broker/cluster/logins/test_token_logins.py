"""A client logs in with a delegation token by SCRAM, as the token's owner, and until the token's end."""

from __future__ import annotations

import random

import pytest

from broker.cluster.logins.delegation_tokens import DelegationTokens, TokenSettings
from broker.cluster.logins.token_logins import TokenLogins
from broker.settings.scram_users import ScramUsers
from config.broker import BrokerSettings
from runtime.tasks import TaskScope
from security.principal import Principal
from security.sasl.mechanisms import AuthenticationFailed, Identity
from security.sasl.scram import MECHANISMS, SaltedPasswords, ScramClient, ScramServer
from tests.doubles.clock import ManualClock
from tests.simulation.store import SimulatedEnsemble

ALICE, SPARK = Principal("User", "alice"), Principal("User", "spark")


def login(users: ScramUsers, mechanism: str, token_id: str, password: str, *, is_token: bool = True) -> Identity:
    """Raises AuthenticationFailed."""
    scram = MECHANISMS[mechanism]
    server = ScramServer(scram, users, "server")
    client = ScramClient(scram, token_id, SaltedPasswords(scram, password), "client", is_token=is_token)
    answer = client.answer(server.step(client.first()))
    assert answer is not None
    assert client.answer(server.step(answer)) is None
    assert server.identity is not None
    return server.identity


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_login_with_a_token(mechanism: str) -> None:
    async with TaskScope("test") as tasks:
        clock = ManualClock(10**12)
        settings = TokenSettings.of(BrokerSettings({"delegation.token.secret.key": "secret"}))
        assert settings is not None
        store = SimulatedEnsemble(clock).connect()
        tokens = DelegationTokens(settings, store, clock, random.Random(1), tasks, is_controller=lambda: False)
        await tokens.start()
        users = ScramUsers()
        logins = TokenLogins(tokens, random.Random(2))
        users.token_login = logins.find
        known = await tokens.create(ALICE, SPARK, [], 5000)
        token_id = known.token.token_id
        expected = Identity(ALICE, known.token.expires_ms, is_by_token=True)
        assert login(users, mechanism, token_id, known.password) == expected
        first = logins.find(mechanism, token_id)
        assert first == logins.find(mechanism, token_id), "the credential is computed once"
        for name, password, is_token in (
            (token_id, "wrong", True),
            ("no-such-token", known.password, True),
            (token_id, known.password, False),
        ):
            with pytest.raises(AuthenticationFailed) as caught:
                login(users, mechanism, name, password, is_token=is_token)
            assert caught.value.client_message is None and known.password not in str(caught.value)
        clock.now_ms += 5001
        with pytest.raises(AuthenticationFailed, match="expired"):
            login(users, mechanism, token_id, known.password)
        assert logins.find(mechanism, token_id) is None


async def test_credentials_are_kept_for_some_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.cluster.logins.token_logins.KEPT_MAX", 2)
    async with TaskScope("test") as tasks:
        clock = ManualClock(10**12)
        settings = TokenSettings.of(BrokerSettings({"delegation.token.secret.key": "secret"}))
        assert settings is not None
        store = SimulatedEnsemble(clock).connect()
        tokens = DelegationTokens(settings, store, clock, random.Random(1), tasks, is_controller=lambda: False)
        await tokens.start()
        logins = TokenLogins(tokens, random.Random(2))
        ids = [(await tokens.create(ALICE, ALICE, [], -1)).token.token_id for _ in range(3)]
        first = logins.find("SCRAM-SHA-256", ids[0])
        for token_id in ids[1:]:
            logins.find("SCRAM-SHA-256", token_id)
        again = logins.find("SCRAM-SHA-256", ids[0])
        assert first is not None and again is not None and first.credential != again.credential
