"""The rewriter against the engine: what a generated program imports when it runs as it is, it imports through our gate
when it runs rewritten, and nothing passes the gate by."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings

from emulator.runtime.compiled_code import ModuleKind
from emulator.runtime.locate import Runtime
from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Reaper
from emulator.runtime.process import Launcher
from emulator.runtime.workbench import Bench, Deadlines, ModuleRefused, Workbench
from host.model.json import JsonValue
from tests.emulator.runtime.import_programs import MOST_IMPORTS, programs
from tests.emulator.runtime.probers import Prober

pytestmark = [pytest.mark.req("MW-11", "MW-12")]

HITS = {f"h{n}.js": f"globalThis.hits.push({n});" for n in range(MOST_IMPORTS)}
RUN = """
globalThis.hits = [];
const app = () => import("./app/main.js");
export default { async fetch() {
  let failed = null;
  try { await Promise.race([app(), scheduler.wait(2000)]); } catch (error) { failed = error.name; }
  for (let i = 0; i < 3; i++) await scheduler.wait(0);
  return Response.json({ failed, hits: [...new Set(globalThis.hits)].sort() });
} };
"""
GATE = """
export const $ = (from, specifier) => {
  let text; try { text = `${specifier}`; } catch (error) { return Promise.reject(error); }
  const found = /^\\.\\/h(\\d)\\.js$/.exec(text);
  if (found === null || from !== "main.js") return Promise.reject(new Error("refused"));
  globalThis.hits.push(Number(found[1]));
  return Promise.resolve({});
};
"""


class Rig:
    """Compiler and engine side by side."""

    def __init__(self, bench: Bench, prober: Prober) -> None:
        self._bench = bench
        self._prober = prober

    async def original(self, source: str) -> JsonValue:
        """What the program imports when the engine runs it as it is."""
        files = {f"app/{name}": text for name, text in HITS.items()}
        return await self._prober.ask({"run.js": RUN, "app/main.js": source, **files})

    async def rewritten(self, source: str) -> JsonValue:
        """The same through the gate alone: none of the modules is where the program would find it."""
        try:
            text = (await self._bench.rewrite("main.js", source.encode())).decode()
        except ModuleRefused as refused:
            return {"failed": refused.reason}
        return await self._prober.ask({"run.js": RUN, "app/main.js": text, "host/imp.js": GATE})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    directory = tmp_path_factory.mktemp("fuzz")
    reaper, log = Reaper(), OutputLog(directory / "log")
    launcher = Launcher(runtime.workerd, directory, reaper, log)
    workbench = Workbench(launcher, runtime.parser, directory, Deadlines(compile_s=3600))
    async with workbench.open_compiler() as bench, Prober.open(launcher) as prober:
        await bench.set_graph(dict.fromkeys(("main.js", *HITS), ModuleKind.JS))
        yield Rig(bench, prober)
    launcher.close()
    reaper.close()
    log.close()


async def check(rig: Rig, source: str) -> None:
    """Both run alike, or both are refused; what is refused by us alone is a form that the contract does not have."""
    before, after = await rig.original(source), await rig.rewritten(source)
    assert isinstance(before, dict) and isinstance(after, dict)
    if after.get("failed") == "syntax_error":
        assert "SyntaxError" in str(before.get("failed")) or "import.source" in source, (source, before)
    elif "SyntaxError" in str(before.get("failed")):
        assert "SyntaxError" in str(after.get("failed")) or after.get("hits") == [], (source, before, after)
    else:
        assert after == before, (source, before, after)


FUZZ = settings(deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck))


@pytest.mark.asyncio(loop_scope="module")
@settings(FUZZ, max_examples=80)
@given(programs())
async def test_every_import_that_the_engine_runs_goes_through_the_gate(rig: Rig, source: str) -> None:
    await check(rig, source)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_parser_refuses_one_legal_form_that_nobody_writes(rig: Rig) -> None:
    source = "var x\n/[/]/g;"  # a regular expression on the line after a declaration that has no value
    assert await rig.original(source) == {"failed": None, "hits": []}
    assert await rig.rewritten(source) == {"failed": "syntax_error"}


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
@settings(FUZZ, max_examples=5000)
@given(programs())
async def test_every_import_of_many_programs_goes_through_the_gate(rig: Rig, source: str) -> None:
    await check(rig, source)
