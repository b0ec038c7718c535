"""An npm for tests that need no registry."""

import json
import shutil
from pathlib import Path

from emulator.runtime.install import DRAFT_PREFIX
from emulator.runtime.pins import installed_modules, parser_in, read_pins, workerd_in
from tests.emulator.runtime.programs import speaking, write_program


class Npm:
    """A stand-in for npm on PATH that lays down a node_modules of one directory and counts its runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made = root / "made"
        self.ran = root / "ran"
        self.env = {
            "HOME": str(root),
            "XDG_CACHE_HOME": str(root / "cache"),
            "PATH": f"{root / 'npm-bin'}:/usr/bin:/bin",
        }
        self.target = installed_modules(self.env).parent
        self.deliver(read_pins().workerd_date)
        self.behave(f"test -f .npmrc -a -f package-lock.json && cp -R {self.made}/. node_modules")

    def deliver(self, version: str) -> None:
        """What the next run brings: a workerd that names `version`, and the pinned parser."""
        shutil.rmtree(self.made, ignore_errors=True)
        write_program(workerd_in(self.made), speaking(f"workerd {version}"))
        parser = parser_in(self.made)
        parser.parent.mkdir(parents=True)
        parser.write_text("export {};")
        (parser.parents[1] / "package.json").write_text(json.dumps({"version": read_pins().parser}))

    def behave(self, script: str) -> None:
        """What a run does, as shell text; every run is counted."""
        write_program(
            self.root / "npm-bin" / "npm", f'#!/bin/sh\necho "$@" >>{self.ran}\nmkdir node_modules\n{script}\n'.encode()
        )

    @property
    def runs(self) -> list[str]:
        return self.ran.read_text().splitlines() if self.ran.exists() else []

    def leftovers(self) -> list[Path]:
        return list(self.target.parent.glob(f"{DRAFT_PREFIX}*"))
