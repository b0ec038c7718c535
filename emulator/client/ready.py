"""The ready file that `takohost serve --ready-file` writes. Knows no process."""

import json
from dataclasses import dataclass
from pathlib import Path

from emulator.client.errors import ClientError


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """Where a running host answers: `api` to `management` are origins."""

    pid: int
    api: str
    ingress: str
    ingress_tls: str
    management: str
    management_token_file: Path
    ca: Path
    state_dir: Path
    storage: str

    @classmethod
    def read(cls, path: Path) -> "ReadyFile":
        """Raises `ClientError` for a missing or foreign file."""
        try:
            document = json.loads(path.read_bytes())
            return cls(
                pid=int(document["pid"]),
                api=str(document["api"]),
                ingress=str(document["ingress"]),
                ingress_tls=str(document["ingressTls"]),
                management=str(document["management"]),
                management_token_file=Path(document["managementTokenFile"]),
                ca=Path(document["ca"]),
                state_dir=Path(document["stateDir"]),
                storage=str(document["storage"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClientError(f"{path} is no ready file: {error}") from error

    def management_token(self) -> str:
        return self.management_token_file.read_text().strip()
