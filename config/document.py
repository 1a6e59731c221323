"""The page docs/settings.md, written from the tables: `python -m config.document > docs/settings.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from config.broker import BrokerSettings
from config.broker.barnabas import OwnSettings
from config.companion import RELAY, WEB, Companion
from config.definition import Setting, Type
from config.group import OwnGroupSettings
from config.providers import ALLOWED_PATHS, ALLOWLIST, DIRECTORY_CLASS, ENV_CLASS, FILE_CLASS, PROVIDERS
from config.topic import LogConfig

_HEAD = """# Settings

Written by `make docs` from the tables in `config/`; edit those.

Names, types, defaults and ranges are Apache Kafka 3.9's but for what [differences](differences.md) lists. Sources of
broker settings, strongest first: dynamic settings of the broker, dynamic defaults of the cluster, `--override
name=value`, environment variables (`KAFKA_` in front, `.` as `_`, `_` as `__`, `-` as `___`; case does not matter), the
properties file, the default. A setting marked *no effect* is accepted, checked and shown, and changes nothing yet; the start
names those that were set to something else than their default, in one warning.
`barnabas settings` prints those of a broker with the values that a start from the same sources would have: it takes a
properties file and `--override name=value`, too, and `--all` for those without effect; other words select settings by their
names (`barnabas settings retention`). `barnabas settings --check FILE` names everything that is wrong with a file, with the
line, and ends with 1 if a broker would not start with it or does not know a name. `--json` is for programs.
"""
_PROVIDERS = f"""
## Config providers

A value of the properties file, of an environment variable or of `--override` may refer to what stands elsewhere, as a whole or
in parts: `${{env:NAME}}` is an environment variable, `${{file:/path:key}}` a key of a properties file in UTF-8,
`${{dir:/path:file}}` the content of a file, with the line's end if it has one. The names before the first colon are those in
`{PROVIDERS}`:

```
{PROVIDERS}=env,file
{PROVIDERS}.env.class={ENV_CLASS}
{PROVIDERS}.file.class={FILE_CLASS}
{PROVIDERS}.file.param.{ALLOWED_PATHS}=/etc/kafka/secrets
broker.rack=${{env:RACK}}
ssl.key.password=${{file:/etc/kafka/secrets/tls.properties:key.password}}
```

"""
_PROVIDER_ROWS = {
    PROVIDERS: ("names, separated by commas without blanks", "The providers there are."),
    f"{PROVIDERS}.<name>.class": (
        f"`{ENV_CLASS}`, `{FILE_CLASS}`, `{DIRECTORY_CLASS}`",
        "What a provider is; any other class stops the start.",
    ),
    f"{PROVIDERS}.<name>.param.{ALLOWLIST}": (
        "a regular expression of Java",
        "Of an `EnvVarConfigProvider`: variables that may be read, by their whole name. Unset: all.",
    ),
    f"{PROVIDERS}.<name>.param.{ALLOWED_PATHS}": (
        "absolute paths that exist, separated by commas without blanks",
        "Of a `FileConfigProvider` or `DirectoryConfigProvider`: what may be read, with all below. Unset: everything.",
    ),
}
_PROVIDED = """
A reference without a value (no such variable, key or file, not allowed, an unknown provider) stays in the value as it
stands, and the start warns of it; a file that cannot be read stops the start. What comes out of a reference is not resolved
again, nor are the providers' own settings and dynamic settings. DescribeConfigs shows the values, but for passwords and
unknown settings; errors show the reference in place of the value, `barnabas settings` both where the value is no
password.
"""
_A_VERSION = "a Kafka version"


def page() -> str:
    kafka = [row for name, row in BrokerSettings.definitions.items() if name not in OwnSettings.definitions]
    parts = [
        _HEAD + _PROVIDERS + "| name | valid | |\n|---|---|---|",
        *(f"| `{name}` | {valid} | {doc} |" for name, (valid, doc) in _PROVIDER_ROWS.items()),
        _PROVIDED,
        "## Settings of this broker only\n",
        *_table(OwnSettings.definitions.values()),
        "\n## Settings of the web process\n",
        *_of_companion(WEB),
        "\n## Settings of the relay\n",
        *_of_companion(RELAY),
        "\n## Broker settings\n",
        *_table(kafka),
        "\n## Topic settings\n",
        "A topic setting without a value of its own follows the broker settings named with it.\n",
        *_table(LogConfig.definitions.values()),
        "\n## Group settings\n",
        "A group without a value of its own follows the broker setting named with it. There are such settings while the "
        "cluster has a feature level above 0.\n",
        *_table(OwnGroupSettings.definitions.values()),
    ]
    return "\n".join(parts) + "\n"


def _of_companion(companion: Companion) -> list[str]:
    name = companion.name
    where = (
        f"They stand in the file of `barnabas {name}`, beside the settings of a client (`bootstrap.servers`,\n"
        f"`security.protocol`), or, with `{companion.enable}=true`, among those of a broker, where the settings of a "
        f"client have\n`{companion.client_prefix}` in front ([{name}.md]({name}.md)).\n"
    )
    return [where, *_table(companion.table.definitions.values(), has_effect=True)]


def _table(rows: Iterable[Setting], *, has_effect: bool = False) -> list[str]:
    """Return the lines of a table. `has_effect`: all rows have one, whether they say so or not."""
    lines = ["| name | type | default | valid | |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.type.name.lower()} | {_code(row, row.default)} | {_valid(row)} | {_remarks(row, has_effect)} |"
        for row in rows
    ]
    return lines


def _code(row: Setting, value: object) -> str:
    text = row.format(value)
    if text is None:
        return "null"
    return f"`{text}`" if text else "empty"


def valid_words(row: Setting) -> str:
    """Return the valid values; empty if any value of the type is valid."""
    text = row.valid_text or row.checked
    return _A_VERSION if text.startswith("[0.8.0") else text


def _valid(row: Setting) -> str:
    text = valid_words(row)
    return f"`{text}`" if text and text != _A_VERSION else text


def _remarks(row: Setting, has_effect: bool) -> str:
    remarks = [row.doc]
    if row.synonyms:
        remarks.append(f"Broker: {', '.join(f'`{name}`' for name in row.synonyms)}.")
    elif row.update.value != "read-only":
        remarks.append(f"Dynamic, {row.update.value}.")
    if row.type is Type.PASSWORD:
        remarks.append("Never shown.")
    if not (has_effect or row.effective):
        remarks.append("*No effect.*")
    return " ".join(remarks)


if __name__ == "__main__":
    sys.stdout.write(page())
