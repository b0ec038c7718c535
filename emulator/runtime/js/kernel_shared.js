// What every kernel shares: compiled code from disk, the module map of an isolate, and the way of binding calls to the
// host. Runs in the kernel's own worker, where no app code ever does.
import { WorkerEntrypoint } from "cloudflare:workers";
import ARGUMENTS from "arguments.txt";
import BINDINGS from "bindings.txt";
import CLOCK from "clock.txt";
import CONSOLE from "console.txt";
import DOC from "doc.txt";
import ERRORS from "errors.txt";
import HIDDEN from "hidden.txt";
import IMP from "imp.txt";
import PRIM from "prim.txt";
import RESOLVE from "resolve.txt";
import SERVICE_BINDING from "service_binding.txt";
import STACKS from "stacks.txt";
import TURNS from "turns.txt";
import WORKFLOW_BINDING from "workflow_binding.txt";

export { Outbound } from "outbound.js";

const COMPATIBILITY_DATE = "2026-01-01";
const COMPATIBILITY_FLAGS = ["disallow_importable_env", "disallow_eval_during_startup"];
const CODE_KEPT = 64;
const CALLS_AT_ONCE = 64;

// A module of the bundle's own registry with a built-in's name wins over the built-in: none of them can be imported.
const SHADOW = {
  js: 'const e = new Error("module_not_found"); Object.defineProperty(e, "name", { value: "module_not_found" }); throw e;',
};
const BUILTINS = ["workers", "sockets", "vectorize", "email", "br", "pipelines", "workflows", "node", "ai",
  "durable-objects"];

const HOST_MODULES = {
  ...Object.fromEntries(BUILTINS.map((name) => ["cloudflare:" + name, SHADOW])),
  "host/prim.js": { js: PRIM },
  "host/arguments.js": { js: ARGUMENTS },
  "host/console.js": { js: CONSOLE },
  "host/doc.js": { js: DOC },
  "host/clock.js": { js: CLOCK },
  "host/resolve.js": { js: RESOLVE },
  "host/hidden.js": { js: HIDDEN },
  "host/imp.js": { js: IMP },
  "host/errors.js": { js: ERRORS },
  "host/bindings.js": { js: BINDINGS },
  "host/service_binding.js": { js: SERVICE_BINDING },
  "host/stacks.js": { js: STACKS },
  "host/turns.js": { js: TURNS },
  "host/workflow_binding.js": { js: WORKFLOW_BINDING },
};

/** The one entrypoint app code can cause to be called: carries a call and the props of its stub to the host. */
export class Host extends WorkerEntrypoint {
  async fetch(request) {
    const body = await request.text();
    const kernel = this.env.K.get(this.env.K.idFromName("k"));
    return new Response(await kernel.answer(this.ctx.props, body));
  }
}

/** The reply to a call that cannot be put before the host. */
export const UNAVAILABLE = '["error","backend_unavailable","The host cannot be reached."]';

/**
 * Calls of bindings on their way to the host and back, over the one socket of this process. At most `CALLS_AT_ONCE` are
 * before the host, further ones wait here: code that calls without end keeps nobody else's call waiting for long.
 */
class Calls {
  #sent = 0;
  #waiting = new Map();
  #queue = [];
  #send;

  constructor(send) {
    this.#send = send;
  }

  ask(props, body) {
    return new Promise((resolve) => {
      this.#queue.push({ text: JSON.stringify({ props, body }), resolve });
      this.#flush();
    });
  }

  /** `!reply <number> <text>`, without its verb. */
  reply(rest) {
    const space = rest.indexOf(" ");
    this.#settle(Number(rest.slice(0, space)), rest.slice(space + 1));
  }

  /** The socket is gone: every waiting call fails as unreachable. */
  lose() {
    for (const number of [...this.#waiting.keys()]) this.#settle(number, UNAVAILABLE);
  }

  #flush() {
    while (this.#queue.length > 0 && this.#waiting.size < CALLS_AT_ONCE) {
      const { text, resolve } = this.#queue.shift();
      const number = ++this.#sent;
      try {
        this.#send("!call " + number + " " + text);
        this.#waiting.set(number, resolve);
      } catch {
        resolve(UNAVAILABLE);
      }
    }
  }

  #settle(number, text) {
    const resolve = this.#waiting.get(number);
    this.#waiting.delete(number);
    resolve?.(text);
    this.#flush();
  }
}

/** The kernel's end of the one socket to the host, as `{host, calls, response}`; `receive` gets the text of each frame. */
export function openHost(receive) {
  const [theirs, host] = Object.values(new WebSocketPair());
  host.accept();
  const calls = new Calls((text) => host.send(text));
  host.addEventListener("message", (event) => receive(event.data));
  host.addEventListener("close", () => calls.lose());
  return { host, calls, response: new Response(null, { status: 101, webSocket: theirs }) };
}

function tableSource(index) {
  const load = ({ path, kind }) => (kind === "other" ? "null" : "() => import(" + JSON.stringify("../app/" + path) + ")");
  const lines = index.modules.map((module) => JSON.stringify(module.path) + ": " + load(module));
  return "export const table = Object.freeze({ __proto__: null, " + lines.join(", ") + " });";
}

// The app's main module behind a namespace of our own: an app that exports `then` is not taken for a promise. What `import()`
// became comes first: in a cycle of modules it may be called before the module that imports it is evaluated.
function mainSource(index) {
  return "import './imp.js'; import * as app from " + JSON.stringify("../app/" + index.entrypoint) + "; export { app };";
}

const OWN_WORDS =
  /^(code [0-9a-f]{64} (has no readable file|has a damaged file) ([0-9]{1,4}|index\.json)|the held bytes of sha256 [0-9a-f]{64} are (gone|damaged)|the Version was retired|retired by the host)$/;

/** What may be said of an error outside of the isolate: app code may have thrown it, and its words may hold a secret. */
export function reasonOf(error) {
  const text = String(error?.message);
  return OWN_WORDS.test(text) ? text : "its isolate broke";
}

async function file(env, digest, name) {
  const response = await env.CODE.fetch("http://code/" + digest + "/" + name);
  if (!response.ok) throw new Error("code " + digest + " has no readable file " + name);
  return response;
}

async function check(data, sha256, digest, name) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  const found = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== sha256) throw new Error("code " + digest + " has a damaged file " + name);
}

async function media(env, digest, module) {
  const data = await (await file(env, digest, module.file)).arrayBuffer();
  await check(data, module.sha256, digest, module.file);
  switch (module.kind) {
    case "js":
      return { js: new TextDecoder().decode(data) };
    case "text":
      return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(data) };
    case "data":
      return { data };
    case "wasm":
      return { wasm: data };
    default:
      throw new Error("code " + digest + " has a module of unknown kind " + module.kind);
  }
}

// A line with the digest of what follows, and the index as JSON: see compiled_code.py.
async function indexOf(env, digest) {
  const text = await (await file(env, digest, "index.json")).text();
  const end = text.indexOf("\n");
  await check(new TextEncoder().encode(text.slice(end + 1)), text.slice(0, end), digest, "index.json");
  return JSON.parse(text.slice(end + 1));
}

async function read(env, digest, main) {
  const index = await indexOf(env, digest);
  const importable = index.modules.filter((module) => module.kind !== "other");
  const read = await Promise.all(importable.map((module) => media(env, digest, module)));
  const modules = {
    ...HOST_MODULES,
    ...main.modules,
    "host/table.js": { js: tableSource(index) },
    "host/main.js": { js: mainSource(index) },
  };
  importable.forEach((module, i) => {
    modules["app/" + module.path] = read[i];
  });
  return { entrypoint: index.entrypoint, modules, main: main.name };
}

async function readOrMend(env, digest, main, mend) {
  try {
    return await read(env, digest, main);
  } catch (error) {
    if (mend === undefined) throw error;
    await mend(digest);
    return read(env, digest, main);
  }
}

/** What `mend` of `codeOf` does: `ask(props, body)` puts a call of the kernel's own before the host. */
export function mendBy(ask) {
  return async (digest) => {
    const reply = JSON.parse(await ask({ kind: "code", versionUid: "", binding: "", targetUid: digest }, ""));
    if (reply[0] !== "ok") throw new Error("code " + digest + " cannot be read: " + reply[2]);
  };
}

const held = new Map();

/**
 * Compiled code by digest, as `{entrypoint, modules, main}`; read from disk, and checked, once. `main` is
 * `{name, modules}`: the main module of every isolate of this kernel, and what it needs beyond the shared modules.
 * `mend(digest)` lets the host make it anew when it is missing or damaged.
 */
export function codeOf(env, digest, main, mend) {
  let code = held.get(digest);
  held.delete(digest);
  if (code === undefined) {
    code = readOrMend(env, digest, main, mend);
    code.catch(() => held.delete(digest));
  }
  held.set(digest, code);
  if (held.size > CODE_KEPT) held.delete(held.keys().next().value);
  return code;
}

/**
 * What `LOADER` is given for a Version: `version` is
 * `{workerUid, versionUid, logTag?, vars, secrets, bindings: [{name, kind, targetUid}]}`,
 * `exports` the `ctx.exports` of the caller, whose `Service` carries the requests of service bindings; `isolate`, a number, goes into the props of every stub. The isolate's raw
 * environment is `{ENTRYPOINT, LOG: JSON text (console.js), VARS: JSON text, BINDINGS: [[name, kind, stub], ...]}`; bindings.js makes the app's `env` of it.
 */
export function isolateOf(code, version, exports, isolate) {
  const stub = ({ name, kind, targetUid }) => {
    if (kind === "service") return exports.Service({ props: { targetUid } });
    const props = { versionUid: version.versionUid, binding: name, kind, targetUid };
    if (isolate !== undefined) props.isolate = isolate;
    return exports.Host({ props });
  };
  return {
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: COMPATIBILITY_FLAGS,
    mainModule: code.main,
    modules: code.modules,
    env: {
      ENTRYPOINT: code.entrypoint,
      LOG: JSON.stringify({
        tag: version.logTag ?? null, // a context is told its own when it starts
        workerUid: version.workerUid,
        versionUid: version.versionUid,
        secrets: Object.values(version.secrets ?? {}),
      }),
      VARS: JSON.stringify({ ...version.vars, ...version.secrets }),
      BINDINGS: version.bindings.map((binding) => [binding.name, binding.kind, stub(binding)]),
    },
    globalOutbound: exports.Outbound({}),
  };
}
