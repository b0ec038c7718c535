"""`/v1/logs`: what Workers say, as lines of JSON. Knows only HTTP and the log."""

import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from emulator.management.errors import ManagementRefused
from emulator.management.parts import Words
from host.model.json import JsonObject

_MEDIA_TYPE = "application/x-ndjson"


class LogRoutes:
    """`GET /v1/logs[?follow=true]`: the lines kept, and with `follow` each later one as it comes."""

    def __init__(self, words: Words) -> None:
        self._words = words

    async def show(self, request: Request) -> Response:
        given = request.query_params.multi_items()
        if given not in ([], [("follow", "true")], [("follow", "false")]):
            raise ManagementRefused(400, "invalid_request", "the only query parameter is follow, true or false")
        if ("follow", "true") in given:
            return StreamingResponse(self._follow(), media_type=_MEDIA_TYPE)
        return Response("".join(_line(line.to_json()) for line in self._words.recent()), media_type=_MEDIA_TYPE)

    async def _follow(self) -> AsyncIterator[str]:
        async for line in self._words.follow():
            yield _line({"missed": line} if isinstance(line, int) else line.to_json())


def _line(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"
