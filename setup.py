"""The build: the wheel installs one name, `barnabas`, with the server's packages as files under `barnabas/_server/`, and the
man pages of its commands."""

import os
import sys

from setuptools import find_packages, setup

from distutils.command.install_data import install_data  # isort: skip  that of setuptools, which comes first

HERE = os.path.dirname(os.path.abspath(__file__))
MAN = os.path.join("share", "man", "man1")
SERVER = [
    "broker",
    "client",
    "config",
    "controller",
    "coordinator",
    "metadata",
    "protocol",
    "relay",
    "replication",
    "runtime",
    "security",
    "storage",
    "tools",
    "web",
]


class InstallManPages(install_data):
    """Makes a page of each command. Without the libraries that commands are made of there are none, and the build says so."""

    def run(self):
        try:
            pages = self.pages()
        except ImportError as error:
            self.warn(f"no man pages: {error}")
            pages = {}
        folder = os.path.join(self.get_finalized_command("build").build_base, "man")
        os.makedirs(folder, exist_ok=True)
        paths = []
        for name, text in pages.items():
            paths.append(os.path.join(folder, name))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)
        self.data_files = [(MAN, paths)]
        super().run()

    @staticmethod
    def pages():
        sys.path.insert(0, HERE)
        try:
            from click import ClickException  # noqa: PLC0415  a build without pages needs none of these

            from barnabas.commands import __version__, root  # noqa: PLC0415
            from runtime.command_line.man_pages import man_pages  # noqa: PLC0415

            try:
                return man_pages(root, __version__)
            except ClickException as error:  # an extra is not installed
                raise ImportError(error.message) from None
        finally:
            sys.path.remove(HERE)


server_packages = find_packages(include=[*SERVER, *(f"{name}.*" for name in SERVER)])

setup(
    packages=[
        *find_packages(include=["barnabas", "barnabas.*"]),
        *(f"barnabas._server.{name}" for name in server_packages),
    ],
    package_dir={"barnabas": "barnabas", **{f"barnabas._server.{name}": name for name in SERVER}},
    # The page's files are served as they are.
    package_data={"barnabas": ["py.typed"], "barnabas._server.web": ["static/**/*"]},
    data_files=[(MAN, [])],
    cmdclass={"install_data": InstallManPages},
)
