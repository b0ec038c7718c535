"""Static assets in the gateway on real workerd: what is read when, what ends with a Version, what app code cannot do."""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.runtime.kernels import KernelSettings
from emulator.runtime.pool import PoolSettings, RunnerPool
from emulator.runtime.process import Launcher
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.model.time import ControlledClock, RealTime
from host.ports import AssetsRecord, BindingRecord, VersionRecord
from tests.emulator.runtime.conftest import NOW_MS, NoCalls, ScriptedHost
from tests.emulator.runtime.gateways import Ingress, handler

BACK = (BindingRecord("BACK", "service", "back"),)
LARGE = bytes(range(256)) * (16 * 4096)
PAGE = {"index.html": b"page"}


def static(uid: str, assets: AssetsRecord) -> VersionRecord:
    """A Version without code."""
    return VersionRecord(uid, "app", None, {}, (), assets=assets)


async def coded(ingress: Ingress, uid: str, body: str, assets: AssetsRecord) -> VersionRecord:
    return replace(await ingress.version(uid, handler(body)), assets=assets)


async def serve_both(ingress: Ingress, front: VersionRecord, back: VersionRecord) -> None:
    """`front` is asked, `back` is what it has bound."""
    routes = (("front", front), ("back", back))
    table = tuple(GatewayRoute(name, name, (RoutedVersion(version, 10000),)) for name, version in routes)
    await ingress.publish(RouteTable(table, "front"))


async def half_read(ingress: Ingress, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has read the head of an answer and no more than what was sent along."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port, limit=4096)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).startswith(b"HTTP/1.1 200")
    return reader, writer


@pytest.mark.req("WV-02", "WV-15")
async def test_a_version_without_code_serves_its_files_and_starts_no_isolate(ingress: Ingress) -> None:
    await ingress.serve((static("v", ingress.assets({**PAGE, "a/b": b"x"})), 10000))
    assert (await ingress.text("/"), await ingress.text("/a/b")) == ("page", "x")
    assert (await ingress.client.get("/c")).status_code == 404
    assert not await ingress.gateway.is_executing("v")


@pytest.mark.req("WD-03", "WV-16")
async def test_each_request_for_a_file_goes_by_the_weights(ingress: Ingress) -> None:
    versions = [static(name, ingress.assets({"index.html": name.encode()})) for name in ("a", "b")]
    await ingress.serve((versions[0], 5000), (versions[1], 5000))
    assert {await ingress.text() for _ in range(40)} == {"a", "b"}
    await ingress.serve((versions[1], 10000))
    assert {await ingress.text() for _ in range(10)} == {"b"}


@pytest.mark.req("WD-07", "WD-04")
async def test_retiring_a_version_cuts_the_files_it_still_sends_and_leaves_the_others(ingress: Ingress) -> None:
    large = ingress.assets({"large": LARGE})
    await ingress.serve((static("leaves", large), 10000))
    cut, cut_writer = await half_read(ingress, "/large")
    await ingress.serve((static("stays", large), 10000))
    whole, whole_writer = await half_read(ingress, "/large")
    evidence = await ingress.gateway.retire("leaves")
    assert evidence.kind == "ack"
    assert len(await asyncio.wait_for(cut.read(), 20)) < len(LARGE)
    assert hashlib.sha256(await asyncio.wait_for(whole.read(), 20)).digest() == hashlib.sha256(LARGE).digest()
    cut_writer.close()
    whole_writer.close()


@pytest.mark.req("WV-09", "WD-03")
async def test_a_version_executes_until_its_files_are_sent_or_their_readers_gone(ingress: Ingress) -> None:
    await ingress.serve((static("v", ingress.assets({**PAGE, "large": LARGE})), 10000))
    assert await ingress.text() == "page"
    for is_read in (True, False):
        await ended(ingress, "v")
        reader, writer = await half_read(ingress, "/large")
        assert await ingress.gateway.is_executing("v")
        if is_read:
            assert len(await asyncio.wait_for(reader.read(), 20)) == len(LARGE)
        writer.close()
    await ended(ingress, "v")


async def ended(ingress: Ingress, version_uid: str) -> None:
    """Return once nothing runs on the Version."""
    async with asyncio.timeout(20):
        while await ingress.gateway.is_executing(version_uid):
            await asyncio.sleep(0.005)


@pytest.mark.req("WD-04", "WV-15")
async def test_the_manifest_is_read_once_and_anew_after_a_retirement(ingress: Ingress) -> None:
    assets = ingress.assets(PAGE)
    version = static("v", assets)
    await ingress.serve((version, 10000))
    assert await ingress.text() == "page"
    kept = ingress.path_of(assets.manifest_sha256)
    content = kept.read_bytes()
    kept.unlink()
    await ingress.serve((version, 10000))
    assert await ingress.text() == "page"
    await ingress.gateway.retire("v")
    await ingress.serve((version, 10000))
    assert (await ingress.client.get("/")).status_code == 500
    kept.write_bytes(content)
    assert await ingress.text() == "page", "a failure is not remembered"


@pytest.mark.req("SA-11", "WV-15")
async def test_a_file_that_is_gone_is_a_500_without_internals_and_other_files_are_served(ingress: Ingress) -> None:
    await ingress.serve((static("v", ingress.assets({**PAGE, "gone": b"gone"})), 10000))
    ingress.path_of(hashlib.sha256(b"gone").hexdigest()).unlink()
    for method in ("GET", "HEAD"):
        answer = await ingress.client.request(method, "/gone")
        assert answer.status_code == 500
        assert answer.text == ("Internal Server Error\n" if method == "GET" else "")
    assert await ingress.text() == "page"


@pytest.mark.req("WV-14")
@pytest.mark.parametrize("files", [{"other": b""}, PAGE], ids=["kept", "replaced"])
async def test_the_404_of_a_handler_is_streamed_or_dropped_whole(ingress: Ingress, files: dict[str, bytes]) -> None:
    body = (
        "const { readable, writable } = new TransformStream(); const w = writable.getWriter();"
        "ctx.waitUntil((async () => { try { for (let n = 0; n < 3; n++) await w.write(new Uint8Array([48 + n])); await w.close(); }"
        "catch {} })()); return new Response(readable, { status: 404 });"
    )
    await ingress.serve((await coded(ingress, "v", body, ingress.assets(files, runs_worker_first=True)), 10000))
    answers = [await ingress.client.get("/") for _ in range(20)]
    expected = (200, "page") if files is PAGE else (404, "012")
    assert {(answer.status_code, answer.text) for answer in answers} == {expected}
    await ended(ingress, "v")


@pytest.mark.req("WV-14", "MW-14")
async def test_a_handler_that_fails_is_a_500_and_asks_for_no_file(ingress: Ingress) -> None:
    assets = ingress.assets(PAGE, runs_worker_first=True, falls_back=True)
    await ingress.serve((await coded(ingress, "v", "throw new Error('hidden')", assets), 10000))
    answer = await ingress.client.get("/")
    assert (answer.status_code, answer.text) == (500, "Internal Server Error\n")


@pytest.mark.req("MW-15", "WV-16", "SA-12")
async def test_app_code_has_no_way_to_the_held_files(ingress: Ingress) -> None:
    assets = ingress.assets({"other": b"secret"})
    digest = hashlib.sha256(b"secret").hexdigest()
    body = (
        f"const path = '/{digest[:2]}/{digest}'; const seen = [Object.keys(env), Object.keys(ctx)];"
        "for (const host of ['files', 'code', 'host', 'files.localhost'])"
        "seen.push(await fetch('http://' + host + path).then((r) => r.text(), (e) => e.name)); return Response.json(seen);"
    )
    await ingress.serve((await coded(ingress, "v", body, assets), 10000))
    answer = await ingress.json("/look")
    assert isinstance(answer, list)
    assert answer[:2] == [[], ["waitUntil"]]
    assert "secret" not in answer


TAMPER = (
    "for (const it of [Response, Request, Headers, URL, ReadableStream, Map, Array, Object, String, Promise])"
    "for (const key of Reflect.ownKeys(it.prototype)) { try { Object.defineProperty(it.prototype, key,"
    "{ configurable: true, get() { throw new Error('taken'); } }); } catch {} }"
)


@pytest.mark.req("WV-14", "MW-15")
async def test_app_code_that_spoils_every_prototype_spoils_no_asset(ingress: Ingress) -> None:
    source = handler("spoil(); return null;", before=f"const spoil = () => {{ {TAMPER} }};")
    version = replace(await ingress.version("v", source), assets=ingress.assets(PAGE, falls_back=True))
    await ingress.serve((version, 10000))
    assert await ingress.text() == "page"
    assert (await ingress.client.post("/")).status_code == 500
    assert [await ingress.text("/x/y") for _ in range(3)] == ["page"] * 3


@pytest.mark.req("MW-20", "WV-16")
async def test_a_service_call_is_answered_by_files_of_the_bound_worker(ingress: Ingress) -> None:
    call = (
        "const ask = async (path, method) => { const r = await env.BACK.fetch('https://x.example' + path, { method });"
        "return [r.status, r.headers.get('content-type'), r.headers.get('content-length'), (await r.arrayBuffer()).byteLength]; };"
        "return Response.json([await ask('/large', 'GET'), await ask('/large', 'HEAD'), await ask('/x%2Fy', 'GET'), await ask('/', 'POST')]);"
    )
    front = await ingress.version("f", handler(call), bindings=BACK)
    await serve_both(ingress, front, static("b", ingress.assets({**PAGE, "large": LARGE}, falls_back=True)))
    answers = await ingress.json()
    assert isinstance(answers, list)
    size, kind = len(LARGE), "text/x-test"
    assert answers[:2] == [[200, kind, str(size), size], [200, kind, str(size), 0]]
    assert [answer[0] for answer in answers[2:] if isinstance(answer, list)] == [404, 404]


@pytest.mark.req("MW-20", "WV-16")
async def test_a_context_is_answered_by_files_too(ingress: Ingress, launcher: Launcher, tmp_path: Path) -> None:
    front = await ingress.version("f", handler("return new Response();"))
    await serve_both(ingress, front, static("b", ingress.assets({**PAGE, "a": b"abc"})))
    kernel = KernelSettings(tmp_path / "code", services=ingress.services_path)
    calls = NoCalls()
    pool = RunnerPool(launcher, kernel, PoolSettings(1), calls, ControlledClock.frozen(NOW_MS), RealTime())
    await pool.open()
    try:
        run = await ScriptedHost(pool, tmp_path / "code", calls).run(
            "const got = await this.env.BACK.fetch('http://x/a'); const head = await this.env.BACK.fetch('http://x/a', "
            "{ method: 'HEAD' }); return { text: await got.text(), type: got.headers.get('content-type'), "
            "size: head.headers.get('content-length'), none: await head.text(), miss: (await this.env.BACK.fetch('http://x/b')).status };",
            bindings=BACK,
        )
        assert await run.result() == {"text": "abc", "type": "text/x-test", "size": "3", "none": "", "miss": 404}
    finally:
        await pool.close()
