"""How a recorded history is shown to people: what no JSON reader could follow stays text."""

import json

import pytest

from emulator.compose.inspection import EngineInspection
from emulator.workflow import InstanceHistory, InstanceView
from host.model.json import JsonValue

AT = "2026-11-30T00:00:00.000Z"


class OneInstance:
    """Stands for an engine whose every instance returned `output`."""

    def __init__(self, output: str) -> None:
        self.inspection = self
        self._output = output

    async def history(self, workflow_uid: str, instance_id: str) -> InstanceHistory:
        view = InstanceView(1, workflow_uid, instance_id, "complete", AT, AT, None)
        return InstanceHistory(view, None, self._output, None, None, (), (), ())


async def shown_output(text: str) -> JsonValue:
    shown = await EngineInspection(OneInstance(text)).show_instance("w", "i")  # type: ignore[arg-type]
    assert shown is not None
    return json.loads("".join([piece async for piece in shown]))["output"]  # type: ignore[no-any-return]


@pytest.mark.req("DW-14")
async def test_a_document_of_any_depth_can_be_shown() -> None:
    assert await shown_output('{"a":' * 200 + "1" + "}" * 200) == json.loads('{"a":' * 200 + "1" + "}" * 200)
    for depth in (201, 100_000):
        text = '{"a":' * depth + "1" + "}" * depth
        assert await shown_output(text) == text


@pytest.mark.req("DW-14")
async def test_brackets_in_strings_and_side_by_side_make_no_depth() -> None:
    wide = {"a": [[]] * 300, "b": '\\"[{' * 300}
    assert await shown_output(json.dumps(wide)) == wide
