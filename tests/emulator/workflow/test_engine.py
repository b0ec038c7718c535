"""Instances go from create to their end on real SQLite, whatever boots lie between."""

import pytest

from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.isolates import Document, Step


@pytest.mark.req("DW-10", "DW-12", "DW-21", "DW-34")
async def test_an_instance_runs_its_steps_once_and_completes(start: Boot) -> None:
    effects: list[str] = []

    async def body(params: Document, step: Step) -> Document:
        async def effect() -> Document:
            effects.append("charge")
            return {"amount": 5}

        assert params == {"order": 1}
        return {"charged": await step.do("charge", effect)}

    host = await start(Flow=body)
    assert await host.create(params={"order": 1}) == "i"
    await host.idle()
    assert await host.output() == {"charged": {"amount": 5}}
    assert effects == ["charge"]
