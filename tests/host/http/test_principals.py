"""Two principals, separate rights, narrowed Spaces: what each sees of the other is nothing."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from host.engine.limits import Limits
from host.http.authentication import TokenAuthentication, TokenTable
from host.http.routes import ROOT
from host.model.digest import sha256_hex
from host.model.records import Principal, Right
from tests.host.api import ORIGIN, Api, Json, form_url, ref, running_api

READ, CHANGE, REFER = Right.READ, Right.CHANGE, Right.REFER


@dataclass
class People:
    """Tokens by word; `entries` may be changed while the host runs."""

    api: Api
    entries: dict[str, Principal] = field(default_factory=dict)

    def table(self) -> TokenTable:
        return TokenTable({sha256_hex(word.encode()): principal for word, principal in self.entries.items()})

    def acting(self, word: str) -> Api:
        """The API as the owner of this token uses it."""
        headers = {"authorization": f"Bearer {word}"}
        client = httpx.AsyncClient(transport=self.api.client._transport, base_url=ORIGIN, headers=headers)
        return Api(client, self.api.engine, self.api.database, self.api.backend, self.api.clock, self.api.faults)


@asynccontextmanager
async def people(path: Path, entries: Mapping[str, Principal], limits: Limits | None = None) -> AsyncIterator[People]:
    holder: list[People] = []
    authenticator = TokenAuthentication(lambda: holder[0].table())
    async with running_api(path / "control.sqlite", authenticator=authenticator, limits=limits) as api:
        holder.append(People(api, dict(entries)))
        yield holder[0]


TWO = {"alice": Principal("alice"), "bob": Principal("bob")}


@pytest.mark.req("HA-21", "HA-20", "HA-10")
async def test_everything_but_discovery_needs_a_token(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        discovery = await found.api.client.get("/.well-known/takoform/v2")
        assert (discovery.status_code, discovery.json()["authentication"]["schemes"]) == (200, ["Bearer"])
        for method, path in (
            ("GET", "/support"),
            ("GET", "/resources"),
            ("POST", "/resources"),
            ("DELETE", "/resources/r-1"),
            ("GET", "/operations/op-1"),
            ("PUT", "/operations/op-1/private-inputs"),
            ("POST", "/previews"),
            ("GET", "/no-such-path"),
            ("PATCH", "/resources"),
        ):
            answer = await found.api.client.request(method, ROOT + path)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["cache-control"] == "no-store"


@pytest.mark.req("HA-23", "HA-32", "HA-43")
async def test_what_belongs_to_another_is_answered_like_what_is_absent(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        alice, bob = found.acting("alice"), found.acting("bob")
        made = (await alice.create("ModuleWorker", "w", {})).json()
        uid, operation = made["resourceUid"], made["id"]
        deleted = (await alice.create("ModuleWorker", "gone", {})).json()["resourceUid"]
        await alice.delete(deleted, 1)

        assert (await bob.get("/resources")).json() == {"items": [], "nextCursor": None}
        for theirs, absent in ((uid, "r-absent"), (deleted, "r-absent")):
            pairs = [
                (await bob.get(f"/resources/{theirs}"), await bob.get(f"/resources/{absent}")),
                (await bob.update(theirs, 1, {}), await bob.update(absent, 1, {})),
                (await bob.delete(theirs, 1), await bob.delete(absent, 1)),
                (
                    await bob.preview({"action": "delete", "uid": theirs, "expectedGeneration": 1}),
                    await bob.preview({"action": "delete", "uid": absent, "expectedGeneration": 1}),
                ),
                (
                    await bob.create("DurableWorkflow", "f", {"worker": ref(theirs), "className": "C"}),
                    await bob.create("DurableWorkflow", "f", {"worker": ref(absent), "className": "C"}),
                ),
            ]
            for one, other in pairs:
                assert (one.status_code, one.text) == (other.status_code, other.text)
        assert (await bob.get(f"/operations/{operation}")).text == (await bob.get("/operations/op-absent")).text
        assert (await bob.replenish(operation, {})).text == (await bob.replenish("op-absent", {})).text
        same_name = await bob.create("ModuleWorker", "w", {})
        assert same_name.status_code == 200, "a name taken by another is free"


@pytest.mark.req("HA-23", "HA-34", "HA-50", "HA-52")
async def test_keys_and_cursors_are_of_one_principal(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        alice, bob = found.acting("alice"), found.acting("bob")
        for name in ("a", "b"):
            await alice.create("ModuleWorker", name, {}, key=f"key-shared-by-both-{name}")
        theirs = await bob.create("ModuleWorker", "a", {}, key="key-shared-by-both-a")
        assert theirs.status_code == 200
        assert theirs.json()["resourceUid"] not in [
            item["uid"] for item in (await alice.get("/resources")).json()["items"]
        ]
        cursor = (await alice.get("/resources", limit=1)).json()["nextCursor"]
        assert (await alice.get("/resources", limit=1, cursor=cursor)).status_code == 200
        assert (await bob.get("/resources", limit=1, cursor=cursor)).status_code == 400


@pytest.mark.req("HA-22", "HA-52")
async def test_a_rotated_token_keeps_resources_and_keys(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        first = await found.acting("alice").create("ModuleWorker", "w", {}, key="key-before-rotation")
        found.entries["alice-2"] = found.entries.pop("alice")
        assert (await found.acting("alice").get("/resources")).status_code == 401
        again = await found.acting("alice-2").create("ModuleWorker", "w", {}, key="key-before-rotation")
        assert (again.status_code, again.json()) == (200, first.json())


@pytest.mark.req("HA-52", "HA-23")
async def test_a_replay_after_revocation_shows_nothing_of_the_old_result(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        alice = found.acting("alice")
        made = await alice.create("ModuleWorker", "w", {}, key="key-create-0000000")
        uid = made.json()["resourceUid"]
        changed = await alice.update(uid, 1, {}, key="key-update-0000000")
        assert changed.status_code == 200

        found.entries["alice"] = Principal("alice", frozenset({READ}))
        for answer in (
            await alice.create("ModuleWorker", "w", {}, key="key-create-0000000"),
            await alice.update(uid, 1, {}, key="key-update-0000000"),
            await alice.delete(uid, 2),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "operationId" not in answer.json()
        assert (await alice.get(f"/resources/{uid}")).status_code == 200

        found.entries["alice"] = Principal("alice", frozenset({CHANGE}))
        for answer in (
            await alice.update(uid, 1, {}, key="key-update-0000000"),
            await alice.get(f"/resources/{uid}"),
            await alice.get(f"/operations/{made.json()['id']}"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert (await alice.get("/resources")).json()["items"] == []


@pytest.mark.req("HA-23")
async def test_referring_is_a_right_of_its_own(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        alice = found.acting("alice")
        worker = (await alice.create("ModuleWorker", "w", {})).json()["resourceUid"]
        found.entries["alice"] = Principal("alice", frozenset({READ, CHANGE}))
        spec = {"worker": ref(worker), "className": "C"}
        refused = await alice.create("DurableWorkflow", "f", spec)
        absent = await alice.create("DurableWorkflow", "f", {**spec, "worker": ref("r-absent")})
        assert (refused.status_code, refused.text) == (409, absent.text)
        found.entries["alice"] = Principal("alice")
        assert (await alice.create("DurableWorkflow", "f", spec)).status_code == 200


@pytest.mark.req("HA-23", "HA-34", "HA-43")
async def test_rights_may_be_narrowed_to_spaces(tmp_path: Path) -> None:
    async with people(tmp_path, TWO) as found:
        alice = found.acting("alice")
        made: dict[str, list[Json]] = {}
        for number, space in enumerate(("s", "t", "u", "s", "t", "u")):
            answer = await alice.create("ModuleWorker", f"w{number}", {}, space=space)
            made.setdefault(space, []).append(answer.json())
        gone = (await alice.create("ModuleWorker", "gone", {}, space="t")).json()
        await alice.delete(gone["resourceUid"], 1)
        found.entries["alice"] = Principal("alice", spaces=frozenset({"s", "u"}))

        seen, cursor = [], None
        while True:
            more: dict[str, str | int] = {} if cursor is None else {"cursor": cursor}
            page = (await alice.get("/resources", limit=1, **more)).json()
            seen += [item["uid"] for item in page["items"]]
            cursor = page["nextCursor"]
            if cursor is None:
                break
        assert seen == sorted(each["resourceUid"] for space in ("s", "u") for each in made[space])
        assert (await alice.get("/resources", space="t")).json() == {"items": [], "nextCursor": None}
        hidden = made["t"][0]
        assert (await alice.get(f"/resources/{hidden['resourceUid']}")).status_code == 404
        assert (await alice.get(f"/resources/{gone['resourceUid']}")).status_code == 404
        assert (await alice.get(f"/operations/{hidden['id']}")).status_code == 404
        assert (await alice.get(f"/operations/{gone['id']}")).status_code == 404
        assert (await alice.delete(hidden["resourceUid"], 1)).status_code == 404
        taken = await alice.create("ModuleWorker", "w1", {}, space="t")
        free = await alice.create("ModuleWorker", "free", {}, space="t")
        assert (taken.status_code, taken.text) == (403, free.text)
        body = {"form": form_url("ModuleWorker"), "space": "t", "name": "w1", "spec": {}}
        assert (await alice.preview({"action": "create", "input": body})).status_code == 403
