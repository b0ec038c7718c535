"""What is declared as not built: pinned, so that it can only shrink, and the same wherever it is told."""

import pytest

from emulator.cli import main
from emulator.compose.support import render
from host.forms.registry import FormRegistry
from host.forms.unbuilt import UNBUILT
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
    assert main(["support"]) == 0
    assert capsys.readouterr().out == render() == (ROOT / "docs" / "support.md").read_text("utf-8"), "run `make docs`"
    assert all(f"**{each.name}**" in render() for each in UNBUILT)
