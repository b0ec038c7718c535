"""Secrets in an isolate: ordinary members of `env` beside the vars."""

import pytest

from tests.emulator.runtime.conftest import ScriptedHost

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.req("WV-07", "MW-15", "HA-60")
async def test_env_has_vars_and_secrets_side_by_side(shared: ScriptedHost) -> None:
    run = await shared.run(
        "return { keys: Reflect.ownKeys(this.env).sort(), token: this.env.TOKEN };",
        variables={"V": 1},
        secrets={"TOKEN": "correct horse é"},
    )
    assert await run.result() == {"keys": ["TOKEN", "V"], "token": "correct horse é"}
