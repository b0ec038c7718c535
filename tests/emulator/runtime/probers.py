"""Bare dynamic isolates of the pinned workerd, without any of our kernels: for tests of what the runtime itself does."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from emulator.runtime.config import Binding, Config, Socket, Worker
from emulator.runtime.process import Launcher
from host.model.json import JsonValue

SOCKET = "probe"
OURS = ("disallow_importable_env", "disallow_eval_during_startup")
"""The flags that every isolate of an app is loaded with."""

_KERNEL = """
import { DurableObject } from "cloudflare:workers";
const decode = ({ base64, ...rest }) => base64 === undefined ? rest
  : Object.fromEntries(Object.entries(base64).map(([kind, text]) => [kind, Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer]));
const load = (env, { modules, flags }) => env.LOADER.load({ compatibilityDate: "2026-01-01", compatibilityFlags: flags,
  mainModule: "run.js", env: {}, globalOutbound: null,
  modules: Object.fromEntries(Object.entries(modules).map(([name, module]) => [name, decode(module)])) });
export class K extends DurableObject {
  async facet(code) {
    const worker = load(this.env, code), started = Date.now();
    const facet = this.ctx.facets.get("f", () => ({ class: worker.getDurableObjectClass("Main") }));
    const first = await (await facet.fetch("http://x/")).text();
    const kept = await (await facet.fetch("http://x/")).text();
    this.ctx.facets.abort("f", new Error("stopped by the test"));
    const after = await facet.fetch("http://x/").then((r) => r.text(), (e) => String(e));
    return [first, kept, after];
  }
}
export default { async fetch(request, env) {
  const code = await request.json();
  try {
    if (code.facet) return Response.json(await env.K.get(env.K.idFromName("k" + Math.random())).facet(code));
    return await load(env, code).getEntrypoint().fetch("http://probe/");
  } catch (error) { return Response.json({ failed: String(error) }); }
} };
"""

Module = str | Mapping[str, JsonValue]


class Prober:
    """One workerd process that loads an isolate per question."""

    def __init__(self, client: httpx.AsyncClient, pid: int) -> None:
        self.pid = pid
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(cls, launcher: Launcher) -> AsyncIterator["Prober"]:
        bindings = (Binding.loader("LOADER"), Binding.durable_object("K", "K"))
        worker = Worker("probe", {"kernel.js": _KERNEL}, {}, bindings, durable_classes=("K",))
        listener, path = launcher.listen()
        with listener:
            child = launcher.spawn(Config((worker,), (Socket(SOCKET, "probe"),)), {SOCKET: listener})
        try:
            transport = httpx.AsyncHTTPTransport(uds=str(path))
            async with httpx.AsyncClient(transport=transport, base_url="http://probe", timeout=60) as client:
                yield cls(client, child.pid)
        finally:
            path.unlink()
            await child.end()

    async def ask(
        self, modules: Mapping[str, Module], flags: tuple[str, ...] = OURS, *, facet: bool = False
    ) -> JsonValue:
        """What `run.js` answers with, or `{"failed": ...}`; text modules are JavaScript."""
        given = {name: {"js": module} if isinstance(module, str) else module for name, module in modules.items()}
        content = json.dumps({"modules": given, "flags": list(flags), "facet": facet})
        answer: JsonValue = (await self._client.post("/", content=content)).json()
        return answer

    async def value(
        self, expression: str, flags: tuple[str, ...] = OURS, modules: Mapping[str, Module] | None = None
    ) -> JsonValue:
        """What an expression is in a handler; an error as its text."""
        run = (
            "const say = (x) => x === undefined ? 'undefined' : x;"
            f"export default {{ async fetch() {{ try {{ return Response.json(say(await (async () => ({expression}))())); }}"
            " catch (error) { return Response.json(String(error)); } } };"
        )
        return await self.ask({"run.js": run, **(modules or {})}, flags)
