"""Reading fixture directories, whole and broken."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from emulator.demo.errors import FixtureBroken
from emulator.demo.fixture import load_fixture

ORDER_WORKFLOW = Path(__file__).parents[3] / "fixtures" / "order-workflow"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORDER_WORKFLOW, tmp_path / "fixture"))


def change(folder: Path, **fields: Any) -> None:
    file = folder / "fixture.json"
    document = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))


def test_the_order_workflow_has_two_versions_of_the_same_modules() -> None:
    fixture = load_fixture(ORDER_WORKFLOW)
    first, second = fixture.versions
    assert [module.path for module in first.modules] == [module.path for module in second.modules]
    assert {module.path: module.media_type for module in first.modules}["email.txt"] == "text/plain"
    assert first.weight + second.weight == 10000
    assert fixture.instances() == ("order-1001", "order-1002", "order-1003")


def test_a_list_is_no_fixture(folder: Path) -> None:
    (folder / "fixture.json").write_text("[]")
    with pytest.raises(FixtureBroken, match=r"fixture.json: the document must be an object, not \[\]"):
        load_fixture(folder)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"worker": None}, "field 'worker' is missing"),
        ({"versions": [{"name": "v", "directory": "v9", "entrypoint": "main.js", "weight": 1}]}, "v9 does not exist"),
        ({"versions": [{"name": "v", "directory": "v1", "entrypoint": "x.js", "weight": 1}]}, "no entrypoint x.js"),
        ({"kill": {"instance": "order-9", "when": "sleeping"}}, "'order-9' is started by no request"),
        ({"kill": {"instance": "order-1001", "when": "soon"}}, "kill.when"),
        ({"events": [{"method": "POST", "path": "/", "instance": "order-1001", "when": "later"}]}, "when is"),
        ({"requests": []}, "started by no request"),
        ({"workflow": 5}, "fixture.json: workflow must be an object, not 5"),
        ({"requests": {}}, "requests must be a list"),
        ({"versions": [{"name": "v", "weight": "1"}]}, r"versions\[0\].weight must be a whole number"),
    ],
)
def test_a_broken_fixture_is_told_in_one_line(folder: Path, fields: dict[str, Any], words: str) -> None:
    change(folder, **fields)
    with pytest.raises(FixtureBroken, match=words) as broken:
        load_fixture(folder)
    assert "\n" not in str(broken.value)


def test_a_fixture_without_its_file_or_without_json_is_told(folder: Path) -> None:
    (folder / "fixture.json").write_text("{")
    with pytest.raises(FixtureBroken, match="is not JSON"):
        load_fixture(folder)
    (folder / "fixture.json").unlink()
    with pytest.raises(FixtureBroken, match=r"cannot read .*No such file"):
        load_fixture(folder)
