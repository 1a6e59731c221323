"""What the SASL mechanisms of all listeners look things up in: credentials of users and tokens, keys of providers.

Rules: made before the store is opened, since the settings of users are followed from its first reading on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.cluster.logins.token_logins import TokenLogins
from broker.network.sasl.oauth_sources import OAuthSources
from broker.settings.scram_users import ScramUsers

if TYPE_CHECKING:
    from broker.cluster.logins.delegation_tokens import DelegationTokens
    from runtime.clock import Clock
    from runtime.disk.filesystem import FileSystem
    from runtime.documents import Documents
    from runtime.randomness import Randomness
    from runtime.tasks import TaskScope


class SaslSources:
    """`users` are the SCRAM credentials, `oauth` what OAUTHBEARER reads from elsewhere."""

    def __init__(
        self, randomness: Randomness, documents: Documents, filesystem: FileSystem, clock: Clock, tasks: TaskScope
    ) -> None:
        self.randomness = randomness
        self.clock = clock
        self.users = ScramUsers()
        self.oauth = OAuthSources(documents, filesystem.read_bytes, clock, tasks)

    async def start_tokens(self, tokens: DelegationTokens | None) -> None:
        """Read the delegation tokens, and let clients log in with them. Raises StoreError."""
        if tokens is not None:
            await tokens.start()
            self.users.token_login = TokenLogins(tokens, self.randomness).find
