"""Says that a host answers: the ready file for programs, a small table for people. Starts nothing."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from emulator.compose.errors import SurroundingsWrong


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """Where everything is; `api`, `ingress` and `management` are origins, `storage` names kind and place."""

    pid: int
    api: str
    ingress: str
    management: str
    management_token_file: Path
    ca: Path
    state_dir: Path
    storage: str

    def document(self) -> dict[str, object]:
        """The content of the ready file."""
        return {
            "pid": self.pid,
            "api": self.api,
            "ingress": self.ingress,
            "management": self.management,
            "managementTokenFile": str(self.management_token_file),
            "ca": str(self.ca),
            "stateDir": str(self.state_dir),
            "storage": self.storage,
        }

    def table(self, start_s: float) -> str:
        """Lines for a terminal; `start_s` is the time from start to ready."""
        rows = {
            "Host API": self.api,
            "Workers": self.ingress,
            "management": f"{self.management} (token in {self.management_token_file})",
            "CA": str(self.ca),
            "storage": self.storage,
            "ready": f"after {start_s:.2f} s, process {self.pid}",
        }
        width = max(map(len, rows))
        return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows.items())


def check_place(path: Path) -> None:
    """Refuse a ready file that could not be written, before anything is started. Raises `SurroundingsWrong`."""
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise SurroundingsWrong(f"cannot write the ready file {path}: its directory does not exist")


def write_ready_file(path: Path, report: ReadyReport) -> None:
    """Write atomically: whoever sees the file sees all of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(report.document()) + "\n")
    temporary.replace(path)
