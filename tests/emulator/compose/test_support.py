"""What is declared as not built: pinned, so that it can only shrink, and the same wherever it is told."""

import json
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.compose.support import render
from emulator.runtime.pins import read_pins
from host.forms.registry import FormRegistry
from host.forms.unbuilt import UNBUILT
from tests.host.api import running_api
from tests.structure.sources import ROOT
from tests.structure.test_requirements import read_titles

ALLOWED = {"kvBindings", "sqliteBindings", "bucketBindings", "queueProducerBindings", "actorBindings"} | {
    "scheduled",
    "queue",
}
"""Take a name out once its part is built; none is ever added."""


@pytest.mark.req("HA-28")
def test_what_is_not_built_can_only_shrink() -> None:
    names = [each.name for each in UNBUILT]
    assert len(set(names)) == len(names)
    assert set(names) <= ALLOWED
    assert {each.form_url for each in UNBUILT} <= {form.url for form in FormRegistry.built_in()}
    assert {name for each in UNBUILT for name in each.ids} <= set(read_titles())


@pytest.mark.req("HA-28")
def test_the_document_and_the_command_say_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["support", "--document"]) == 0
    assert capsys.readouterr().out == render() == (ROOT / "docs" / "support.md").read_text("utf-8"), "run `make docs`"
    assert all(f"**{each.name}**" in render() for each in UNBUILT)
    assert main(["support"]) == 0
    shown = capsys.readouterr().out
    assert all(f"**{each.name}**" in shown for each in UNBUILT)
    assert not any(words in shown for words in ("make docs", "tests", "(HA-82)"))


@pytest.mark.req("HA-82")
async def test_the_report_names_api_forms_capabilities_and_backends(tmp_path: Path) -> None:
    text = render()
    async with running_api(tmp_path / "control.sqlite") as api:
        discovery = (await api.client.get("/.well-known/takoform/v2")).json()
    assert f"`{discovery['api']}`" in text
    for name, value in discovery["capabilities"].items():
        assert f"`{name}: {json.dumps(value)}`" in text
    assert all(f"- `{form.url}`" in text for form in FormRegistry.built_in())
    assert f"workerd {read_pins().workerd}" in text
    assert "they say nothing of a Form" in text
