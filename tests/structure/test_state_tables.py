"""The documented state tables are those of the code."""

import subprocess
import sys

from tests.state_tables import DOCUMENT
from tests.structure.sources import ROOT


def test_the_document_is_what_the_tables_say() -> None:
    command = [sys.executable, "-m", "tests.state_tables", "--print"]  # apart: tests declare fault points of their own
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == DOCUMENT.read_text("utf-8"), "run `make docs`"
