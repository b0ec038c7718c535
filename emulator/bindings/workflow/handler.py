"""Answers calls of app code on a Workflow binding: decodes the body, asks the instances, encodes the reply.

The Workflow is the one the host fixed when the stub was made; the body names an instance of it and nothing else.
"""

import json
import logging
from collections.abc import Sequence

from emulator.contexts import BindingCall
from emulator.workflow import ErrorName, InstanceRefused, Instances
from host.sqlite import DatabaseError

logger = logging.getLogger("takohost.bindings.workflow")

_LENGTHS = {"create": 3, "get": 2, "status": 2, "sendEvent": 4, "terminate": 2}


class _BadCall(Exception):
    """The body is not a call: it was not made by our own shim."""


def _parse(body: str) -> list[str | None]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _BadCall("not JSON") from error
    if not isinstance(found, list) or not all(member is None or isinstance(member, str) for member in found):
        raise _BadCall("not an array of texts")
    if not found or _LENGTHS.get(found[0]) != len(found):
        raise _BadCall("an unknown verb or another number of members")
    return found


def _text(value: str | None) -> str:
    if value is None:
        raise _BadCall("a text is missing")
    return value


def _reply(members: Sequence[str | None]) -> str:
    return json.dumps(members, ensure_ascii=True, separators=(",", ":"))


def _refusal(name: ErrorName, message: str) -> str:
    return _reply(["error", name.value, message])


class WorkflowCalls:
    """`BindingCalls` for calls of kind "workflow" (DW-10 to DW-18)."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances

    async def answer(self, call: BindingCall) -> str:
        """A reply in any case: `["ok", ...]` or `["error", name, message]`."""
        try:
            return _reply(["ok", *await self._run(call.target_uid, _parse(call.body))])
        except InstanceRefused as refusal:
            return _refusal(refusal.name, str(refusal))
        except _BadCall as error:
            return _refusal(ErrorName.TYPE_ERROR, str(error))
        except DatabaseError as error:
            logger.error("a call on binding %r failed: %s", call.binding, error)
            return _refusal(ErrorName.BACKEND_UNAVAILABLE, "the store did not answer")

    async def _run(self, workflow_uid: str, body: list[str | None]) -> Sequence[str | None]:
        match body:
            case ["create", instance_id, params]:
                return [await self._instances.create(workflow_uid, instance_id, params)]
            case ["get", instance_id]:
                return [await self._instances.get(workflow_uid, _text(instance_id))]
            case ["status", instance_id]:
                found = await self._instances.status(workflow_uid, _text(instance_id))
                return [found.status, found.output_text, found.reason, found.message]
            case ["sendEvent", instance_id, event_type, payload]:
                await self._instances.send_event(workflow_uid, _text(instance_id), _text(event_type), payload)
                return []
            case ["terminate", instance_id]:
                await self._instances.terminate(workflow_uid, _text(instance_id))
                return []
            case _:
                raise _BadCall("an unknown verb")
