"""The ASGI application of the Host API. Routes on the raw path, never lets an exception reach the client (HA-13)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from host.engine.engine import Engine
from host.engine.limits import Capabilities
from host.engine.requests import DeleteResource, Mutation
from host.http import documents, pages
from host.http.answers import RETRY_AFTER_S, json_response, problem, text_response
from host.http.authentication import Authenticator, NoAuthentication
from host.http.bodies import BodyReader, check_no_body
from host.http.envelopes import (
    read_create,
    read_filter,
    read_form_url,
    read_limit,
    read_preview,
    read_replenishment,
    read_update,
)
from host.http.reading import (
    check_host,
    read_expected_generation,
    read_idempotency_key,
    read_query,
)
from host.http.routes import METHODS, OPEN_ROUTES, Route, Target, find_route
from host.model.errors import CallerError, ErrorCode, HostApiError, HostError, not_found
from host.model.records import Operation, Principal

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`origin` gives `https://host[:port]` without a trailing slash; it is asked per request, for ports come late."""

    origin: Callable[[], str]
    authenticator: Authenticator = field(default_factory=NoAuthentication)


@dataclass(frozen=True, slots=True)
class _Call:
    """One request that has a route and a caller."""

    request: Request
    target: Target
    principal: Principal


_Handler: TypeAlias = Callable[[_Call], Awaitable[Response]]


def create_app(engine: Engine, settings: HttpSettings) -> ASGIApp:
    """The Host API as an ASGI application; serve it over TLS."""
    return HostApi(engine, settings)


class HostApi:
    """An ASGI application."""

    def __init__(self, engine: Engine, settings: HttpSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._bodies = BodyReader(engine.limits.max_request_bytes)
        self._handlers: Mapping[tuple[Route, str], _Handler] = {
            (Route.DISCOVERY, "GET"): self._discover,
            (Route.DOCUMENTATION, "GET"): self._document,
            (Route.AUTHENTICATION, "GET"): self._document,
            (Route.SUPPORT, "GET"): self._support,
            (Route.RESOURCES, "GET"): self._list,
            (Route.RESOURCES, "POST"): self._create,
            (Route.RESOURCE, "GET"): self._read,
            (Route.RESOURCE, "PUT"): self._update,
            (Route.RESOURCE, "DELETE"): self._delete,
            (Route.OPERATION, "GET"): self._operation,
            (Route.PREVIEWS, "POST"): self._preview,
            (Route.PRIVATE_INPUTS, "PUT"): self._replenish,
        }
        self._missing = _not_offered(engine.capabilities)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        allowed: tuple[str, ...] = ()
        try:
            check_host(request.headers)
            target = find_route(_raw_path(request))
            is_open = target is not None and target.route in OPEN_ROUTES
            principal = Principal("") if is_open else self._settings.authenticator.authenticate(request.headers)
            if target is None:
                raise not_found("path")
            allowed = METHODS[target.route]
            return await self._dispatch(_Call(request, target, principal), allowed)
        except HostApiError as error:
            return self._refuse(request, error, allowed)
        except ClientDisconnect:
            raise
        except Exception:
            _log.exception("a request failed")
            failure = HostError(ErrorCode.INTERNAL_ERROR, "the host failed; what it has accepted is kept")
            return self._refuse(request, failure, allowed)

    def _refuse(self, request: Request, error: HostApiError, allowed: tuple[str, ...]) -> Response:
        if error.log is not None:
            _log.warning("%s: %s", error.code, error.log)
        _forget_frames(error)
        schemes = self._settings.authenticator.schemes
        return problem(error, allowed, schemes, str(request.scope.get("http_version", "")))

    async def _dispatch(self, call: _Call, allowed: tuple[str, ...]) -> Response:
        method = call.request.method
        if method not in allowed:
            raise CallerError(ErrorCode.METHOD_NOT_ALLOWED, "this path does not take the method")
        if call.target.route in self._missing:
            what = self._missing[call.target.route]
            raise CallerError(ErrorCode.CAPABILITY_UNAVAILABLE, f"this host does not offer {what}")
        return await self._handlers[call.target.route, method](call)

    async def _discover(self, call: _Call) -> Response:
        read_query(_raw_query(call.request))
        schemes = self._settings.authenticator.schemes
        origin, engine = self._settings.origin(), self._engine
        return json_response(documents.discovery(origin, schemes, engine.limits, engine.capabilities))

    async def _document(self, call: _Call) -> Response:
        is_first = call.target.route is Route.DOCUMENTATION
        read_query(_raw_query(call.request))
        return text_response(pages.DOCUMENTATION if is_first else pages.AUTHENTICATION)

    async def _support(self, call: _Call) -> Response:
        form_url = read_form_url(read_query(_raw_query(call.request), ("form",)))
        return json_response(documents.support(form_url, self._engine.support(form_url)))

    async def _list(self, call: _Call) -> Response:
        query = read_query(_raw_query(call.request), ("space", "name", "form", "limit", "cursor"))
        limit = read_limit(query, self._engine.limits.max_page_size)
        page = await self._engine.resources(call.principal, read_filter(query), limit, query.get("cursor"))
        return json_response(documents.page(page))

    async def _read(self, call: _Call) -> Response:
        read_query(_raw_query(call.request))
        return json_response(documents.resource(await self._engine.resource(call.principal, call.target.identifier)))

    async def _operation(self, call: _Call) -> Response:
        read_query(_raw_query(call.request))
        return json_response(documents.operation(await self._engine.operation(call.principal, call.target.identifier)))

    async def _preview(self, call: _Call) -> Response:
        read_query(_raw_query(call.request))
        try:
            mutation = await self._bodies.read(call.request, read_preview)
        except CallerError as error:
            if error.code is not ErrorCode.CAPABILITY_REQUIRED:
                raise
            return json_response(documents.preview(error))
        return json_response(documents.preview(await self._engine.preview(call.principal, mutation)))

    async def _replenish(self, call: _Call) -> Response:
        read_query(_raw_query(call.request))
        inputs = await self._bodies.read(call.request, read_replenishment)
        found = await self._engine.replenish(call.principal, call.target.identifier, inputs)
        return json_response(documents.operation(found))

    async def _create(self, call: _Call) -> Response:
        key = self._mutation_key(call)
        return await self._mutate(call, key, await self._bodies.read(call.request, read_create))

    async def _update(self, call: _Call) -> Response:
        key = self._mutation_key(call)
        generation = read_expected_generation(call.request.headers)
        read = partial(read_update, call.target.identifier, generation)
        return await self._mutate(call, key, await self._bodies.read(call.request, read))

    async def _delete(self, call: _Call) -> Response:
        key = self._mutation_key(call)
        generation = read_expected_generation(call.request.headers)
        await check_no_body(call.request)
        return await self._mutate(call, key, DeleteResource(call.target.identifier, generation))

    def _mutation_key(self, call: _Call) -> str:
        read_query(_raw_query(call.request))
        return read_idempotency_key(call.request.headers)

    async def _mutate(self, call: _Call, key: str, mutation: Mutation) -> Response:
        """200 when the Operation has settled in time, else 202 (HA-40)."""
        accepted = await self._engine.mutate(call.principal, key, mutation)
        operation = await _unless_left(call.request, self._engine.wait_for_settlement(accepted))
        headers = {"location": documents.operation_url(self._settings.origin(), operation)}
        if operation.status.is_terminal:
            return json_response(documents.operation(operation), headers=headers)
        headers["retry-after"] = RETRY_AFTER_S
        return json_response(documents.operation(operation), status=202, headers=headers)


def _not_offered(offered: Capabilities) -> Mapping[Route, str]:
    """Routes of capabilities that the host does not have, and what these are called (HA-25, HA-26)."""
    missing = {Route.OFFERINGS: "offerings"}
    if not offered.previews:
        missing[Route.PREVIEWS] = "previews"
    if not offered.private_inputs:
        missing[Route.PRIVATE_INPUTS] = "private inputs"
    return missing


def _forget_frames(error: BaseException | None) -> None:
    """A future that ended with the error and a frame that holds the future would keep the request's body alive."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


async def _unless_left(request: Request, wait: Awaitable[Operation]) -> Operation:
    """The awaited Operation; ends with `ClientDisconnect` when the client leaves first."""
    waiting = asyncio.ensure_future(wait)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
        return waiting.result()
    finally:
        waiting.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _raw_path(request: Request) -> bytes:
    raw_path: bytes = request.scope["raw_path"]
    return raw_path.partition(b"?")[0]


def _raw_query(request: Request) -> bytes:
    raw_query: bytes = request.scope["query_string"]
    return raw_query
