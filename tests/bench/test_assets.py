"""What a static asset costs the gateway, beside a `fetch` handler of the same process that answers the same. Printed."""

import asyncio
from dataclasses import replace

import pytest

from emulator.runtime.identity import figures_of
from tests.emulator.runtime.conftest import bundler, ingress, launcher, said
from tests.emulator.runtime.gateways import Ingress, handler

__all__ = ["bundler", "ingress", "launcher", "said"]

COUNT = 2000
LARGE_COUNT = 20
LANES = 8
LARGE = bytes(16 * 1024 * 1024)
GET = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def ask(ingress: Ingress, path: bytes, count: int) -> None:
    """That many answers over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port, limit=1 << 20)
    for _ in range(count):
        writer.write(GET % path)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    writer.close()


async def cost_s(ingress: Ingress, path: bytes, count: int) -> float:
    """Processor time of the gateway for each answer, after some that do not count."""
    await ask(ingress, path, 20)
    before = cpu_s(ingress)
    await asyncio.gather(*(ask(ingress, path, count // LANES) for _ in range(LANES)))
    return (cpu_s(ingress) - before) / (count // LANES * LANES)


def cpu_s(ingress: Ingress) -> float:
    figures = figures_of(ingress.gateway.pid or 0)
    assert figures is not None
    return figures.cpu_s


@pytest.mark.bench
async def test_what_an_asset_costs(ingress: Ingress) -> None:
    files = {f"small-{number}": b"page" for number in range(511)} | {"large": LARGE}
    coded = await ingress.version("v", handler("return new Response('page');"))
    await ingress.serve((replace(coded, assets=ingress.assets(files)), 10000))
    handled_s = await cost_s(ingress, b"handled", COUNT)
    asset_s = await cost_s(ingress, b"small-510", COUNT)
    plain = await ingress.version("w", handler("return new Response('page');"))
    await ingress.serve((plain, 10000))
    alone_s = await cost_s(ingress, b"alone", COUNT)
    await ingress.serve((replace(coded, assets=ingress.assets(files)), 10000))
    large_s = await cost_s(ingress, b"large", LARGE_COUNT)
    print(
        f"\nprocessor time of the gateway a request: fetch alone {alone_s * 1e6:.0f} us; one of 512 assets"
        f" {asset_s * 1e6:.0f} us ({asset_s / alone_s:.2f} of it); a miss that fetch answers {handled_s * 1e6:.0f} us"
        f" ({handled_s / alone_s:.2f}); 16 MiB {large_s * 1e3:.1f} ms ({16 / large_s:.0f} MiB a second)"
    )
    assert large_s > 0
