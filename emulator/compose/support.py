"""Says in words what is not built of the Forms that the host advertises. Knows the list, keeps none."""

from collections.abc import Sequence

from host.forms.registry import FormRegistry
from host.forms.unbuilt import UNBUILT, Unbuilt

_HEAD = """\
# What is not built

Printed by `takohost support`; written by `make docs`. Do not edit.

This host says `supported: true` of these Forms:
"""


def render() -> str:
    """The whole document, in Markdown."""
    forms = FormRegistry.built_in()
    lines = [_HEAD, *(f"- `{form.url}`" for form in forms), "", "Of them these parts are missing (HA-28):", ""]
    for form in forms:
        missing = [each for each in UNBUILT if each.form_url == form.url]
        lines += _section(form.url, missing) if missing else ()
    return "\n".join(lines)


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
