"""Several clients of one engine at once, and what they remember of the answers."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx

from host.http.routes import ROOT
from tests.host.api import Json, form_url

ACCEPTED = (200, 202)
SPACES = ("s", "t")


@dataclass(frozen=True)
class Intent:
    """A mutation as a client means it: the same intent is the same request, byte for byte."""

    method: str
    path: str
    generation: int | None = None
    name: str = ""
    space: str = "s"

    @property
    def body(self) -> Json | None:
        if self.method == "POST":
            return {"form": form_url("ModuleWorker"), "space": self.space, "name": self.name, "spec": {}}
        return {"spec": {}} if self.method == "PUT" else None


@dataclass
class Memory:
    """Accepted Operations by key, and by Resource the intents that made them."""

    operations: dict[str, Json] = field(default_factory=dict)
    intents: dict[str, Intent] = field(default_factory=dict)
    generations: defaultdict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def take(self, key: str, intent: Intent, answer: httpx.Response) -> None:
        """Check an answer against everything that was answered before, then remember it."""
        document = answer.json()
        if answer.status_code not in ACCEPTED:
            assert answer.status_code in (404, 409, 410), answer.text
            if key in self.intents:
                is_same = self.intents[key] == intent
                assert not is_same, f"a replay of an accepted request is refused: {answer.text}"
                assert document["code"] == "idempotency_conflict", answer.text
            return
        assert self.intents.setdefault(key, intent) == intent, "one key stands for two requests"
        first = self.operations.setdefault(key, document)
        assert (first["id"], first["resourceUid"]) == (document["id"], document["resourceUid"]), "two Operations"
        assert first["generation"] == document["generation"]
        self._take_generation(intent, document)

    def _take_generation(self, intent: Intent, operation: Json) -> None:
        uid, generation = operation["resourceUid"], operation["generation"]
        assert self.generations[uid].setdefault(generation, operation["id"]) == operation["id"], "a generation twice"
        if intent.generation is None:
            assert generation == 1
            self.names[uid] = (intent.space, intent.name)
        else:
            assert generation == intent.generation + 1, "not the next generation"
        if operation["action"] == "delete" and operation["status"] == "succeeded":
            self.deleted.add(uid)


@dataclass
class Clients:
    """Sends over one application; every answer goes through the memory."""

    http: httpx.AsyncClient
    memory: Memory = field(default_factory=Memory)

    async def send(self, key: str, intent: Intent) -> httpx.Response:
        headers = {"idempotency-key": key}
        if intent.generation is not None:
            headers["takoform-expected-generation"] = str(intent.generation)
        answer = (
            await self.http.request(intent.method, ROOT + intent.path, headers=headers, json=intent.body)
            if (intent.body is not None)
            else await self.http.request(intent.method, ROOT + intent.path, headers=headers)
        )
        self.memory.take(key, intent, answer)
        return answer

    async def walk(self, limit: int, **where: str) -> list[Json]:
        """A whole list in pages of `limit`; fails when an uid repeats or the order breaks."""
        found: list[Json] = []
        query: dict[str, Any] = {"limit": limit, **where}
        while True:
            page = (await self.http.get(f"{ROOT}/resources", params=query)).json()
            assert len(page["items"]) <= limit
            found += page["items"]
            if page["nextCursor"] is None:
                break
            query["cursor"] = page["nextCursor"]
        uids = [item["uid"] for item in found]
        assert uids == sorted(set(uids))
        assert all(item[name] == value for item in found for name, value in where.items())
        return found
