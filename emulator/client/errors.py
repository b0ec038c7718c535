"""What can go wrong between a client and a host, each with a sentence for people. Knows no command."""


class ClientError(Exception):
    """Base of everything this package raises."""


class HostUnreachable(ClientError):
    """No answer came; whether a mutation was accepted is not known (HA-14)."""


class InvalidDiscovery(ClientError):
    """The discovery document is not one; the client stops and repairs nothing (HA-90)."""


class UnexpectedAnswer(ClientError):
    """An answer outside the API: a redirect, a body that is not JSON, an unknown status (HA-92)."""


class RequestRefused(ClientError):
    """The host answered with a problem: `status`, `code`, `detail` (HA-01)."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}" if detail else f"{status} {code}")
        self.status = status
        self.code = code
        self.detail = detail


class OperationFailed(ClientError):
    """The Operation ended as failed; `code` and `effect` are the host's words."""

    def __init__(self, operation_id: str, code: str, message: str, effect: str) -> None:
        super().__init__(f"operation {operation_id} failed ({code}, effect {effect}): {message}")
        self.operation_id = operation_id
        self.code = code
        self.effect = effect


class OutcomeUnknown(ClientError):
    """The deadline passed while the outcome was open: nothing may be created again under any key (HA-93)."""
