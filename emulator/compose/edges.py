"""The HTTP edges of a host: Host API over TLS, management over loopback http. Knows how to serve, not what."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.compose.authority import ServerIdentity, write_private
from emulator.compose.host import Host
from emulator.compose.inspection import EngineInspection, EngineWorkload
from emulator.compose.listeners import LOOPBACK, Listeners, address_of
from emulator.compose.processes import HostProcesses
from emulator.compose.serving import Server, probe_http
from emulator.front import FrontLimits, Refusal, RefusalBody
from emulator.management import ClockControl, ManagementParts, create_app, new_token
from emulator.management.errors import refusal as management_refusal
from host.http import fronts, openapi
from host.http.app import HttpSettings
from host.http.app import create_app as create_host_api
from host.http.authentication import Authenticator
from host.model.json import JsonObject
from host.model.time import RealTime

_DISCOVERY = "/.well-known/takoform/v2"
_LOG = logging.getLogger(__name__)
DRAIN_S = 5.0
"""Real time that requests and contexts get before they are stopped."""
_MANAGEMENT_LIMITS = FrontLimits(body_s=600.0)
"""Uploads of artifacts may take a while."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What clients call the listeners: where these are bound, for `localhost` may be another address, too.

    The certificate covers it.
    """

    api: str
    ingress: str
    ingress_tls: str
    management: str

    def document(self) -> JsonObject:
        """What management says of them."""
        return {
            "api": self.api,
            "ingress": self.ingress,
            "ingressTls": self.ingress_tls,
            "management": self.management,
        }

    @classmethod
    def of(cls, listeners: Listeners) -> "Origins":
        def port(listener: socket.socket) -> int:
            return int(listener.getsockname()[1])

        return cls(
            api=f"https://{LOOPBACK}:{port(listeners.api)}",
            ingress=f"http://{LOOPBACK}:{port(listeners.ingress)}",
            ingress_tls=f"https://{LOOPBACK}:{port(listeners.secure)}",
            management=f"http://{LOOPBACK}:{port(listeners.management)}",
        )


async def serve_edges(
    host: Host,
    listeners: Listeners,
    identity: ServerIdentity,
    authenticator: Authenticator,
    token_file: Path,
    stack: AsyncExitStack,
) -> Origins:
    """Serve both and return once all four listeners answer; `stack` drains them."""
    origins = Origins.of(listeners)
    plain, secure = address_of(listeners.ingress), address_of(listeners.secure)
    trust = ssl.create_default_context(cafile=identity.ca)
    token = new_token()

    def document() -> JsonObject:
        return openapi.document(origins.api, authenticator.schemes, host.engine.limits, host.engine.capabilities)

    write_private(token_file, f"{token}\n".encode())
    management = Server(
        create_app(_management_parts(host, authenticator, document, origins), _own_hosts(listeners), token),
        listeners.management,
        _refused_management,
        _MANAGEMENT_LIMITS,
    )
    stack.push_async_callback(management.stop)
    stack.callback(host.workerd.words.close)  # or the followers would hold the listener up
    api_app = create_host_api(host.engine, HttpSettings(lambda: origins.api, authenticator))
    api = Server(api_app, listeners.api, _refused_api, FrontLimits(), identity)
    stack.push_async_callback(api.stop)
    await asyncio.gather(
        api.answers(_DISCOVERY),
        management.answers("/v1/clock"),
        probe_http(plain, "/", None, "ready.invalid"),
        probe_http(secure, "/", trust, "ready.invalid"),
    )
    stack.push_async_callback(_drain, host, management, api)
    return origins


async def _drain(host: Host, *servers: Server) -> None:
    """Take no more connections and claim nothing; what runs may end or park by itself for `DRAIN_S`."""
    host.engine.stop_accepting()
    ways: list[Coroutine[Any, Any, None]] = [host.workerd.gateway.drain(), host.workflows.drain()]
    ways += [server.stop() for server in servers]
    tasks = [asyncio.create_task(way) for way in ways]
    limit = asyncio.create_task(RealTime().sleep_s(DRAIN_S))
    done = asyncio.create_task(asyncio.wait(tasks))
    await asyncio.wait((limit, done), return_when=asyncio.FIRST_COMPLETED)
    for task in (limit, done, *tasks):
        task.cancel()
    await asyncio.gather(limit, done, *tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a part of the drain failed", exc_info=error)


def _refused_api(refusal: Refusal) -> RefusalBody:
    return RefusalBody(fronts.MEDIA_TYPE, fronts.refused_request(refusal.status, refusal.detail))


def _refused_management(refusal: Refusal) -> RefusalBody:
    answer = management_refusal(refusal.status, "invalid_request", refusal.detail)
    return RefusalBody("application/json", bytes(answer.body))


def _own_hosts(listeners: Listeners) -> tuple[str, ...]:
    port = listeners.management.getsockname()[1]
    return (f"{LOOPBACK}:{port}", f"localhost:{port}")


def _management_parts(
    host: Host, authenticator: Authenticator, document: Callable[[], JsonObject], origins: Origins
) -> ManagementParts:
    return ManagementParts(
        artifacts=host.artifacts,
        principals=authenticator.known_principals,
        clock=ClockControl(
            host.clock,
            EngineWorkload(host.workflows, host.withdrawals),
            RealTime(),
            tell=host.workerd.gateway.follow_clock,
        ),
        instances=EngineInspection(host.workflows),
        calls=host.workflows.instances,
        withdrawals=host.withdrawals,
        faults=host.faults,
        processes=HostProcesses(lambda: host.workerd.gateway.census, host.workerd.pool.census),
        openapi=document,
        operations=host.engine,
        words=host.workerd.words,
        listeners=origins.document(),
        triggers=host.triggers,
    )
