"""Says what is not built of the advertised Forms, and what test results speak of. Knows the lists, keeps none."""

import json
from collections.abc import Sequence

from emulator.runtime.pins import read_pins
from host.engine.limits import EVERYTHING
from host.forms.registry import FormRegistry
from host.forms.unbuilt import UNBUILT, Unbuilt
from host.http import documents

_HEAD = """\
# What is not built
{origin}
This host says `supported: true` of these Forms:
"""
_ORIGIN = """
Printed by `takohost support --document`; written by `make docs`. Do not edit.
"""
_WHAT_TESTS_SAY = """\
## What the tests speak of

A report of the tests of this repository is about the following and about nothing else (HA-82).

- API: `{api}`; capabilities: {capabilities}.
- Forms: those above, under their exact URLs.
- Backends: workerd {workerd} and SQLite (the apsw of `requirements/`) for `tests/emulator`; for `tests/host` one in
  memory, whose results are about the common API: they say nothing of a Form, and prove nothing of this host.
"""


def render() -> str:
    """The whole document, in Markdown."""
    return "\n".join((*_missing(_ORIGIN), _what_tests_say()))


def render_missing() -> str:
    """The same for a user, without what concerns this repository alone."""
    return "\n".join(_missing(""))


def _missing(origin: str) -> list[str]:
    forms = FormRegistry.built_in()
    lines = [
        _HEAD.format(origin=origin),
        *(f"- `{form.url}`" for form in forms),
        "",
        "Of them these parts are missing (HA-28):",
        "",
    ]
    for form in forms:
        missing = [each for each in UNBUILT if each.form_url == form.url]
        lines += _section(form.url, missing) if missing else ()
    return lines


def _what_tests_say() -> str:
    capabilities = documents.capabilities(EVERYTHING)
    return _WHAT_TESTS_SAY.format(
        api=documents.API,
        capabilities=", ".join(f"`{name}: {json.dumps(value)}`" for name, value in capabilities.items()),
        workerd=read_pins().workerd,
    )


def start_line() -> str:
    """One line for the start of a host."""
    return f"{len(UNBUILT)} parts of advertised Forms: see `takohost support`"


def _section(url: str, missing: Sequence[Unbuilt]) -> list[str]:
    name, version = url.split("/")[-3:-1]
    return [
        f"## {name} {version}",
        "",
        *(f"- **{each.name}** ({', '.join(each.ids)}): {each.what}" for each in missing),
        "",
    ]
