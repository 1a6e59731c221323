"""The build: the wheel installs one name, `barnabas`, with the server's packages as files under `barnabas/_server/`."""

from setuptools import find_packages, setup

SERVER = [
    "broker",
    "config",
    "controller",
    "coordinator",
    "metadata",
    "protocol",
    "replication",
    "runtime",
    "security",
    "storage",
    "tools",
]

server_packages = find_packages(include=[*SERVER, *(f"{name}.*" for name in SERVER)])

setup(
    packages=[
        *find_packages(include=["barnabas", "barnabas.*"]),
        *(f"barnabas._server.{name}" for name in server_packages),
    ],
    package_dir={"barnabas": "barnabas", **{f"barnabas._server.{name}": name for name in SERVER}},
    package_data={"barnabas": ["py.typed"]},
)
