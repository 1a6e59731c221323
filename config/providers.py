"""Config providers: settings whose values are in other places, `${env:NAME}`, `${file:/path:key}`, `${dir:/path:file}`.

    config.providers=env,file
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets
    ssl.key.password=${file:/etc/secrets/tls.properties:password}

Rules: pure; environment and files are parameters. A value may contain several references; their values are not resolved again.
All settings are resolved except those of the providers. As in Apache Kafka a reference without a value remains unchanged in the
setting, with a warning; a file that cannot be read, a path for `env`, and an invalid provider or parameter are errors.
Invariants: no value from a provider is in an error, a warning or a repr of this module.
Source: KIP-297, KIP-421, KIP-887, KIP-993; Kafka ConfigTransformer, AbstractConfig, EnvVarConfigProvider, FileConfigProvider,
DirectoryConfigProvider, AllowedPaths.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from config.errors import HIDDEN, ConfigError, invalid_value
from config.java_patterns.pattern import compile_java
from config.sources import read_properties

PROVIDERS = "config.providers"
ALLOWLIST = "allowlist.pattern"
ALLOWED_PATHS = "allowed.paths"
_PACKAGE = "org.apache.kafka.common.config.provider"
ENV_CLASS = f"{_PACKAGE}.EnvVarConfigProvider"
FILE_CLASS = f"{_PACKAGE}.FileConfigProvider"
DIRECTORY_CLASS = f"{_PACKAGE}.DirectoryConfigProvider"
# Shorter values occur by chance in any text: they are not hidden.
HIDDEN_FROM_LENGTH = 4

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")


class ProviderFiles(Protocol):
    """The files that providers may read."""

    def read_bytes(self, path: str) -> bytes:
        """Read a file. Raises OSError."""

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...


class NoFiles:
    """No files."""

    def read_bytes(self, path: str) -> bytes:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def exists(self, path: str) -> bool:
        return False

    def is_directory(self, path: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Provided:
    """The result of the providers. `references` are those that were resolved, by setting; `unresolved` are warnings."""

    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    _values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def hide(self, text: str) -> str:
        """Return `text` with references in place of their values."""
        for reference, value in sorted(self._values.items(), key=lambda pair: -len(pair[1])):
            if len(value.strip()) >= HIDDEN_FROM_LENGTH:
                text = text.replace(value.strip(), reference)
        return text


@dataclass(frozen=True, slots=True)
class _Missing:
    """A reference without a value, and why."""

    reason: str


# A provider's result for a reference's path (None without one) and key. Raises ConfigError without the setting's name.
_Provider = Callable[[str | None, str], "str | _Missing"]


def resolve(
    given: Mapping[str, str], environment: Mapping[str, str], files: ProviderFiles, is_secret: Callable[[str], bool]
) -> tuple[dict[str, str], Provided]:
    """Return `given` with its references resolved. `is_secret` says which values must not be shown. Raises ConfigError."""
    providers = _providers(given, environment, files)
    resolved: dict[str, str] = {}
    references: dict[str, tuple[str, ...]] = {}
    values: dict[str, str] = {}
    unresolved: list[str] = []
    for name, text in given.items():
        resolved[name] = text
        if is_of_providers(name) or "${" not in text:
            continue
        parts: list[str] = []
        followed: list[str] = []
        end = 0
        for match in _REFERENCE.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            reference = match.group()
            value = _value(name, match, providers)
            if isinstance(value, _Missing):
                parts.append(reference)
                # A reference to no provider may be part of a password.
                shown = HIDDEN if is_secret(name) and match[1] not in providers else reference
                unresolved.append(f"{name}: {shown} is taken as it stands: {value.reason}")
            else:
                parts.append(value)
                followed.append(reference)
                values[reference] = value
        if followed:
            references[name] = tuple(followed)
        resolved[name] = "".join((*parts, text[end:]))
    return resolved, Provided(references, tuple(unresolved), values)


def is_of_providers(name: str) -> bool:
    return name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


def known_provider_settings(given: Mapping[str, str]) -> set[str]:
    """Return the names that are used, of those that begin with `config.providers`."""
    known = {PROVIDERS}
    for provider in _names(given):
        known.add(_class_setting(provider))
        parameter = _PARAMETERS.get(given.get(_class_setting(provider), ""))
        if parameter is not None:
            known.add(_parameter_setting(provider, parameter))
    return known


def _names(given: Mapping[str, str]) -> list[str]:
    """Return the names of providers, with blanks as in Apache Kafka."""
    return [name for name in given.get(PROVIDERS, "").split(",") if name]


def _class_setting(provider: str) -> str:
    return f"{PROVIDERS}.{provider}.class"


def _parameter_setting(provider: str, parameter: str) -> str:
    return f"{PROVIDERS}.{provider}.param.{parameter}"


def _value(name: str, match: re.Match[str], providers: Mapping[str, _Provider | _Missing]) -> str | _Missing:
    provider = providers.get(match[1], _Missing(f"{PROVIDERS} names no such provider"))
    if isinstance(provider, _Missing):
        return provider
    try:
        return provider(match[2], match[3])
    except ConfigError as error:
        raise ConfigError(f"{name}: {match.group()}: {error}", valid=error.valid) from error


def _providers(
    given: Mapping[str, str], environment: Mapping[str, str], files: ProviderFiles
) -> dict[str, _Provider | _Missing]:
    found: dict[str, _Provider | _Missing] = {}
    for provider in _names(given):
        setting = _class_setting(provider)
        if setting not in given:
            found[provider] = _Missing(f"{setting} is not set")
            continue
        class_name = given[setting]
        parameter = _PARAMETERS.get(class_name)
        if parameter is None:
            reason = "There is no such config provider here"
            raise invalid_value(setting, class_name, reason, valid=", ".join(_PARAMETERS))
        setting = _parameter_setting(provider, parameter)
        if class_name == ENV_CLASS:
            found[provider] = _EnvironmentProvider(environment, setting, given.get(setting))
        else:
            allowed = _AllowedPaths(setting, given.get(setting, ""), files)
            made = _FileProvider if class_name == FILE_CLASS else _DirectoryProvider
            found[provider] = made(files, allowed)
    return found


_PARAMETERS = {ENV_CLASS: ALLOWLIST, FILE_CLASS: ALLOWED_PATHS, DIRECTORY_CLASS: ALLOWED_PATHS}


class _EnvironmentProvider:
    def __init__(self, environment: Mapping[str, str], setting: str, pattern: str | None) -> None:
        self._environment = environment
        self._setting = setting
        try:
            self._allowed = None if pattern is None else compile_java(pattern)
        except ValueError as error:
            raise invalid_value(setting, pattern, str(error), valid="a regular expression of Java") from error

    def __call__(self, path: str | None, key: str) -> str | _Missing:
        if path:
            raise ConfigError("variables have no path", valid="${provider:NAME}")
        if self._allowed is not None and not self._allowed.fullmatch(key):
            return _Missing(f"{self._setting} does not allow it")
        return self._environment.get(key, _Missing("there is no such environment variable"))


class _FileProvider:
    def __init__(self, files: ProviderFiles, allowed: _AllowedPaths) -> None:
        self._files = files
        self._allowed = allowed

    def __call__(self, path: str | None, key: str) -> str | _Missing:
        if not path:
            return _Missing("it names no file")
        taken = self._allowed.taken(path)
        if taken is None:
            return self._allowed.refusal
        try:
            properties = read_properties(self._files.read_bytes(taken).decode())
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
        except ValueError as error:  # its text may contain that of the file
            raise ConfigError(f"{path} is not a properties file in UTF-8") from error
        return properties.get(key, _Missing("the file has no such key"))


class _DirectoryProvider:
    def __init__(self, files: ProviderFiles, allowed: _AllowedPaths) -> None:
        self._files = files
        self._allowed = allowed

    def __call__(self, path: str | None, key: str) -> str | _Missing:
        if not path:
            return _Missing("it names no directory")
        taken = self._allowed.taken(path)
        if taken is None:
            return self._allowed.refusal
        file = posixpath.join(taken, key)
        is_there = key not in ("", ".", "..") and "/" not in key and self._files.is_directory(taken)
        if not is_there or not self._files.exists(file) or self._files.is_directory(file):
            return _Missing("there is no such file")
        try:
            return self._files.read_bytes(file).decode(errors="replace")
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error


class _AllowedPaths:
    """Files and directories below which a provider reads; all when none is given."""

    def __init__(self, setting: str, text: str, files: ProviderFiles) -> None:
        self.refusal = _Missing(f"{setting} does not allow it")
        self._allowed: list[str] = []
        for path in text.rstrip(",").split(",") if text else ():
            if not path.startswith("/") or not files.exists(path):
                valid = "absolute paths that exist, separated by commas without blanks"
                raise invalid_value(setting, text, f"{path!r} is not one", valid=valid)
            self._allowed.append(_normal(path))

    def taken(self, path: str) -> str | None:
        """Return the path to read, None if it is not allowed. Links are not resolved for the check."""
        if not self._allowed:
            return path
        normal = _normal(path)
        is_below = any(normal == each or normal.startswith(each.rstrip("/") + "/") for each in self._allowed)
        return normal if is_below else None


def _normal(path: str) -> str:
    """Normalise a path: without `.` and `..`; two leading slashes become one, unlike in POSIX."""
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal
