"""The texts in which kernels are told of Versions and contexts, and the calls that come back from their stubs."""

import json
from collections.abc import Iterable, Iterator

from emulator.contexts import BindingCall, ContextStart, VersionRecord
from emulator.runtime.log_tags import LogTags

CODE_KIND = "code"
"""The kind of a kernel's own call: the compiled code `targetUid` is missing or damaged and is to be made anew."""

FILES_KIND = "files"
"""The kind of another: held bytes `targetUid`, to be served as an asset of `versionUid`, are gone or damaged."""
PART_CHARACTERS = 65_536
"""So much is made and sent in one turn of the event loop: about a millisecond of it."""


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


def start_parts(start: ContextStart, tags: LogTags) -> Iterator[str]:
    """What an isolate is told to begin with, as JSON text: class, instance, params, now, history, context, log tag.

    In parts, each made when it is asked for, of `PART_CHARACTERS` and at most twice as many before they are escaped.
    """
    return _gathered(_start_pieces(start, tags))


def _start_pieces(start: ContextStart, tags: LogTags) -> Iterator[str]:
    context_id, instance_id, version = start.context_id, start.instance_id, start.version
    tag = tags.of(version.worker_uid, version.version_uid, instance_id, context_id)
    yield f"[{_json(start.class_name)},{_json(instance_id)},"
    yield from _text_pieces(start.params_text)
    yield f",{_json(start.now_ms)},["
    for number, step in enumerate(start.steps):
        yield f"{',' if number else ''}[{_json(step.name)},{_json(step.state)},"
        yield from _text_pieces(step.text)
        yield "]"
    yield f"],{_json(context_id)},{_json(tag)}]"


def _text_pieces(text: str | None) -> Iterator[str]:
    """A text as JSON, null for none. What stands for a character does not depend on those beside it."""
    if text is None or len(text) <= PART_CHARACTERS:
        yield _json(text)
        return
    yield '"'
    for at in range(0, len(text), PART_CHARACTERS):
        yield _json(text[at : at + PART_CHARACTERS])[1:-1]
    yield '"'


def _gathered(pieces: Iterable[str]) -> Iterator[str]:
    """The same characters in fewer parts."""
    part: list[str] = []
    length = 0
    for piece in pieces:
        part.append(piece)
        length += len(piece)
        if length >= PART_CHARACTERS:
            yield "".join(part)
            part, length = [], 0
    yield "".join(part)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
