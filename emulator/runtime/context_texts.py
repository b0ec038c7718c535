"""The texts in which kernels are told of Versions and contexts, and the calls that come back from their stubs."""

import json

from emulator.contexts import BindingCall, ContextStart, VersionRecord
from emulator.runtime.log_tags import LogTags

CODE_KIND = "code"
"""The kind of a kernel's own call: the compiled code `targetUid` is missing or damaged and is to be made anew."""

FILES_KIND = "files"
"""The kind of another: held bytes `targetUid`, to be served as an asset of `versionUid`, are gone or damaged."""


def binding_call(props: dict[str, str], body: str) -> BindingCall:
    """A call as its stub's props and the app's text say; the props are the kernel's own, set by the host."""
    return BindingCall(
        props["versionUid"], props["binding"], props["kind"], props["targetUid"], props.get("contextId"), body
    )


def version_text(version: VersionRecord) -> str:
    """What an isolate of a Version is loaded from, as JSON text; equal for equal isolates."""
    bindings = [{"name": b.name, "kind": b.kind, "targetUid": b.target_uid} for b in version.bindings]
    told = {
        "code": version.code_digest,
        "workerUid": version.worker_uid,
        "versionUid": version.version_uid,
        "vars": dict(version.vars),
        "secrets": dict(version.secrets or {}),
        "bindings": bindings,
    }
    return _json(told)


def start_text(start: ContextStart, tags: LogTags) -> str:
    """What an isolate is told to begin with, as JSON text: class, instance, params, now, history, context, log tag."""
    steps = [[step.name, step.state, step.text] for step in start.steps]
    context_id, instance_id, version = start.context_id, start.instance_id, start.version
    tag = tags.of(version.worker_uid, version.version_uid, instance_id, context_id)
    return _json([start.class_name, instance_id, start.params_text, start.now_ms, steps, context_id, tag])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
