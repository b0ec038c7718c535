"""Static assets on a whole host over HTTP: which file answers, in which turn, and how."""

import random
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.emulator.compose.hosts import TestHost, running_host
from tests.emulator.compose.sites import Asset, Site, make_site

pytestmark = pytest.mark.usefixtures("workerd")

TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "asset_cases.toml").read_text("utf-8"))
FILES = {
    path: Asset(b"" if path == "empty" else path.encode(), "text/x-" + str(n)) for n, path in enumerate(TABLE["files"])
}
OTHER_METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")

COUNTED = """
let calls = 0;
export default {
  async fetch(request) {
    const { searchParams } = new URL(request.url);
    const text = request.method + " " + (await request.text()) + " " + ++calls;
    return new Response(request.method === "HEAD" ? null : text, { status: Number(searchParams.get("status") ?? 200) });
  },
};
"""
ABSENT = """
export default {
  fetch(request) {
    const status = Number(new URL(request.url).searchParams.get("status") ?? 404);
    return new Response(request.method === "HEAD" ? null : "the handler's own", { status, headers: { "x-own": "1" } });
  },
};
"""
CALLER = """
export default {
  async fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    const url = "https://elsewhere.example" + pathname + search;
    return env.BACK.fetch(url, { method: request.method });
  },
};
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHost]:
    with running_host(tmp_path_factory.mktemp("assets") / "h") as started:
        yield started


@pytest.fixture(scope="module")
def plain(host: TestHost) -> Site:
    return make_site(host, "plain", FILES)


@pytest.fixture(scope="module")
def page(host: TestHost) -> Site:
    return make_site(host, "page", FILES, is_single_page=True)


@pytest.fixture(scope="module")
def mixed(host: TestHost) -> Site:
    return make_site(host, "mixed", FILES, COUNTED, is_single_page=True)


@pytest.fixture(scope="module")
def first(host: TestHost) -> Site:
    return make_site(host, "first", FILES, ABSENT, runs_worker_first=True, is_single_page=True)


@pytest.fixture(scope="module")
def secure(first: Site) -> Site:
    return first.expose()


@pytest.fixture(scope="module")
def caller(host: TestHost, page: Site) -> Site:
    """Calls `page` by a service binding, whatever it is asked itself."""
    return make_site(host, "caller", {"unasked": Asset(b"")}, CALLER, bindings={"BACK": page.worker})


def judge_file(site: Site, target: str, path: str) -> None:
    """The file answers GET, and HEAD with the same headers and nothing else (WV-15)."""
    got = site.ask(target)
    assert (got.status, got.body) == (200, FILES[path].content), target
    assert got.headers["content-type"] == FILES[path].media_type
    assert got.headers["content-length"] == str(len(got.body))
    head = site.ask(target, "HEAD")
    assert (head.status, head.headers, head.body) == (200, got.headers, b""), target


@pytest.mark.req("WV-10", "WV-15")
@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["target"])
def test_a_target_finds_what_the_table_says(
    case: dict[str, Any], plain: Site, page: Site, mixed: Site, first: Site
) -> None:
    target = case["target"]
    if "file" in case:
        for site in (plain, page, mixed, first):
            judge_file(site, target, case["file"])
        return
    assert plain.ask(target).status == plain.ask(target, "HEAD").status == 404
    if case.get("valid"):
        for site in (page, mixed, first):
            judge_file(site, target, "index.html")
        return
    assert page.ask(target).status == page.ask(target, "HEAD").status == 404
    assert mixed.ask(target).body.startswith(b"GET"), "a key that is none reaches fetch"
    kept = first.ask(target)
    assert (kept.status, kept.body, kept.headers["x-own"]) == (404, b"the handler's own", "1")


def odd_paths(count: int) -> list[str]:
    """Distinct paths of signs that URLs, escapes and file systems treat in their own ways."""
    chance = random.Random(20261201)
    signs = "aA09%.-_~ +&=:@;,*'()!$|<>\"^`{}[]\u0085\u00a0\u00e9\u0301\u202e\ufeff\ufffd\U0001f600"
    found: set[str] = set()
    while len(found) < count:
        segments = ["".join(chance.choices(signs, k=chance.randint(1, 6))) for _ in range(chance.randint(1, 3))]
        if not {".", ".."} & set(segments):
            found.add("/".join(segments))
    return sorted(found)


@pytest.mark.req("WV-10", "SA-03")
def test_every_path_that_a_manifest_may_have_is_reached_by_its_escaped_form(host: TestHost) -> None:
    paths = odd_paths(120)
    site = make_site(host, "odd", {path: Asset(path.encode()) for path in paths})
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda path: site.ask("/" + quote(path)), paths))
    assert {path: answer.body for path, answer in zip(paths, answers, strict=True)} == {
        path: path.encode() for path in paths
    }


@pytest.mark.req("WV-16", "MW-20", "SA-12")
@pytest.mark.parametrize("case", TABLE["cases"][::4], ids=lambda case: case["target"])
def test_a_service_call_finds_the_same(case: dict[str, Any], caller: Site) -> None:
    if "file" in case or case.get("valid"):
        judge_file(caller, case["target"], case.get("file", "index.html"))
    else:
        assert caller.ask(case["target"]).status == 404


@pytest.mark.req("WV-16", "WE-10")
@pytest.mark.parametrize("case", TABLE["cases"][::3], ids=lambda case: case["target"])
def test_an_endpoint_finds_the_same(case: dict[str, Any], secure: Site) -> None:
    if "file" in case or case.get("valid"):
        judge_file(secure, case["target"], case.get("file", "index.html"))
    else:
        assert secure.ask(case["target"]).body == b"the handler's own"
    assert secure.ask("/x/y?status=403").status == 403


@pytest.mark.req("WV-15", "MW-20")
@pytest.mark.parametrize("method", OTHER_METHODS)
def test_another_method_goes_to_fetch_or_is_404(
    method: str, plain: Site, page: Site, mixed: Site, caller: Site
) -> None:
    body = b"" if method in ("DELETE", "OPTIONS") else b"sent"
    length = f"Content-Length: {len(body)}"
    for site in (plain, page, caller):
        assert site.ask("/", method, length, body=body).status == 404
    answer = mixed.ask("/index.html", method, length, body=body)
    assert (answer.status, answer.body.split(b" ")[:2]) == (200, [method.encode(), body])


@pytest.mark.req("WV-14")
def test_a_single_page_swallows_get_and_leaves_other_methods_to_fetch(host: TestHost) -> None:
    """Subtle point 7."""
    site = make_site(host, "swallow", {"index.html": Asset(b"<p>", "text/html")}, COUNTED, is_single_page=True)
    assert (site.ask("/api/x").body, site.ask("/api/x", "HEAD").status) == (b"<p>", 200)
    assert site.ask("/api/x", "POST", "Content-Length: 2", body=b"hi").body == b"POST hi 1"
    assert site.ask("/a%2Fb").body == b"GET  2"
    assert site.ask("/x//y").body == b"GET  3"
    assert site.ask("/d/%2e%2e/index.html").body == b"<p>"


@pytest.mark.req("WV-14")
def test_worker_first_asks_for_assets_only_after_a_404(first: Site) -> None:
    for status in (200, 403, 500):
        answer = first.ask(f"/index.html?status={status}")
        assert (answer.status, answer.body) == (status, b"the handler's own")
    judge_file(first, "/x/y?status=404", "x/y")
    head = first.ask("/nothing?status=404", "HEAD")
    assert (head.status, head.headers["content-type"], head.body) == (200, FILES["index.html"].media_type, b"")
    assert head.headers["content-length"] == str(len(FILES["index.html"].content))
    assert "x-own" not in head.headers
    posted = first.ask("/index.html?status=404", "POST", "Content-Length: 0")
    assert (posted.status, posted.body) == (404, b"the handler's own")


@pytest.mark.req("WV-14", "WV-13")
def test_without_a_single_page_a_miss_goes_to_fetch_or_keeps_its_404(host: TestHost) -> None:
    files = {"index.html": Asset(b"<p>")}
    after = make_site(host, "after", files, COUNTED)
    assert (after.ask("/").body, after.ask("/other").body) == (b"<p>", b"GET  1")
    before = make_site(host, "before", files, ABSENT, runs_worker_first=True)
    assert (before.ask("/").body, before.ask("/other").body) == (b"<p>", b"the handler's own")


@pytest.mark.req("WV-15", "WV-10")
def test_many_requests_at_once_get_each_their_own_file(plain: Site, page: Site) -> None:
    paths = [path for path in TABLE["files"] if path.isascii() and " " not in path and "%" not in path] * 20
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda path: page.ask("/" + path), paths))
    assert [answer.body for answer in answers] == [FILES[path].content for path in paths]


@pytest.mark.req("WV-15")
def test_the_largest_file_comes_whole(host: TestHost) -> None:
    content = bytes(range(256)) * (16 * 4096)
    site = make_site(host, "large", {"large.bin": Asset(content, "application/octet-stream")})
    answer = site.ask("/large.bin")
    assert (len(answer.body), answer.headers["content-length"]) == (16 * 1024 * 1024, str(len(content)))
    assert answer.body == content
    head = site.ask("/large.bin", "HEAD")
    assert (head.headers, head.body) == (answer.headers, b"")
