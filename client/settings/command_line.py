"""What the options of a command say about the cluster that it works on.

Strongest first: an option that names brokers, the file of `--command-config`, the profile (`--profile NAME` or
`BARNABAS_PROFILE`: the file `~/.config/barnabas/NAME.properties`), and `localhost:9092`, where `make run` starts a broker.
"""

from __future__ import annotations

import os

from client.settings.files import read_properties_file
from client.settings.values import ClientSettings

PROFILE_VARIABLE = "BARNABAS_PROFILE"
DEFAULTS = ClientSettings(servers=(("localhost", 9092),), request_timeout_ms=10_000)


def client_properties(command_config: str | None, profile: str | None) -> dict[str, str]:
    """Return the properties of a file or of a profile, the file is stronger; without one there are none. Raises
    SettingsError."""
    path = command_config or (profile_path(profile) if profile else None)
    return {} if path is None else read_properties_file(path)


def profile_path(name: str) -> str:
    """Return the file of a profile."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "barnabas", f"{name}.properties")
