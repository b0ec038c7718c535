// The kernel of a gateway: the public socket's requests go to a Version picked by weight, in an isolate kept per Version,
// without a word to the host. The host speaks over the control socket alone.
//
// host -> kernel: "!table <n> <json>", "!retire <n> <versionUid>", "!running <n> <versionUid>", "!reply <n> <text>",
//                 "!ping <n>"
// kernel -> host: "!done <n>" (after "!running" with a number), "!call <n> <json>", "!pong <n>", "!loading <versionUid>", "!loaded <versionUid>"
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { Calls, Host, Outbound, codeOf, isolateOf } from "kernel_shared.js";
import { Routes, missing, plain } from "routes.js";
import HTTP from "http.txt";

export { Host, Outbound };

const MAIN = { name: "host/http.js", modules: { "host/http.js": { js: HTTP } } };
const FACET = "app";
const LONGEST_START_MS = 10000;

// One isolate runs the router, K and every V: they share these.
let routes;
// Versions by uid from their first table until they are retired: a request keeps the Version it was given (WD-03).
const versions = new Map();

/** The host's end: holds the one WebSocket, as I/O objects belong to the request that made them. */
export class K extends DurableObject {
  #host;
  #calls;

  fetch() {
    if (this.#host !== undefined) return new Response("taken", { status: 409 });
    const [theirs, ours] = Object.values(new WebSocketPair());
    ours.accept();
    this.#host = ours;
    this.#calls = new Calls((text) => ours.send(text));
    ours.addEventListener("message", (event) => this.#receive(event.data));
    ours.addEventListener("close", () => this.#calls.lose());
    return new Response(null, { status: 101, webSocket: theirs });
  }

  /** Called by `Host`: the reply text of a binding call. */
  answer(props, body) {
    return this.#calls.ask(props, body);
  }

  /** Called by V: the watchdog is more patient while code is compiled and evaluated for the first time. */
  say(verb, versionUid) {
    this.#host.send(verb + " " + versionUid);
  }

  #receive(text) {
    const [verb, number] = text.split(" ", 2);
    const rest = text.slice(verb.length + number.length + 2);
    switch (verb) {
      case "!table":
        this.#setTable(JSON.parse(rest));
        return this.#host.send("!done " + number);
      case "!retire":
        return this.#retire(number, rest);
      case "!running":
        return this.#count(number, rest);
      case "!reply":
        return this.#calls.reply(number + " " + rest);
      case "!ping":
        return this.#host.send("!pong " + number);
    }
  }

  #setTable(table) {
    for (const worker of table.workers) for (const version of worker.versions) versions.set(version.versionUid, version);
    routes = new Routes(table);
  }

  // Whatever runs for the Version runs below its V; without V there is nothing.
  async #retire(number, versionUid) {
    versions.delete(versionUid);
    await versionObject(this.env, versionUid).stop();
    this.#host.send("!done " + number);
  }

  async #count(number, versionUid) {
    const running = await versionObject(this.env, versionUid).running();
    this.#host.send("!done " + number + " " + running);
  }
}

/**
 * Holds the isolate of one Version as a facet, with all its requests: the abort of the facet ends whatever they still do.
 * A plain entrypoint would be cheaper by a hop, but nothing ends its streams and promises.
 */
export class V extends DurableObject {
  #requests; // the facet, once the app's code was evaluated in it
  #loading;
  #isOpen = false;

  async fetch(request) {
    if (this.#requests === undefined) {
      this.#loading ??= this.#load(this.ctx.id.name).finally(() => (this.#loading = undefined));
      await this.#loading;
    }
    if (this.#requests === undefined) return plain(503, "This Version was retired.");
    try {
      return await this.#requests.fetch(request);
    } catch (error) {
      this.#requests = undefined; // the facet may have broken: the next request asks for it anew
      throw error;
    }
  }

  /** How many handlers and promises given to `waitUntil` are unsettled. A body that only streams is not counted. */
  async running() {
    if (this.#requests === undefined) return this.#loading === undefined ? 0 : 1;
    try {
      return Number(await (await this.#requests.fetch("http://running/")).text());
    } catch {
      return 0; // a broken facet runs nothing
    }
  }

  stop() {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#requests = undefined;
    this.ctx.facets.abort(FACET, new Error("retired by the host"));
  }

  async #load(uid) {
    if (!versions.has(uid)) return;
    const kernel = this.env.K.get(this.env.K.idFromName("k"));
    await kernel.say("!loading", uid);
    await scheduler.wait(0); // the word is out before the process is busy
    try {
      const code = await codeOf(this.env, versions.get(uid).code, MAIN);
      if (!versions.has(uid)) return;
      const requests = this.#facet(code, versions.get(uid));
      this.#isOpen = true;
      await requests.fetch("http://load/");
      this.#requests = requests;
    } finally {
      await kernel.say("!loaded", uid);
    }
  }

  #facet(code, version) {
    const isolate = isolateOf(code, version, this.ctx.exports);
    const flags = [...isolate.compatibilityFlags, "nodejs_als"];
    return this.ctx.facets.get(FACET, () => {
      const worker = this.env.LOADER.load({ ...isolate, compatibilityFlags: flags });
      return { class: worker.getDurableObjectClass("Requests") };
    });
  }
}

function versionObject(env, versionUid) {
  return env.V.get(env.V.idFromName(versionUid));
}

/** The host's own socket. */
export class Control extends WorkerEntrypoint {
  fetch(request) {
    return this.env.K.get(this.env.K.idFromName("k")).fetch(request);
  }
}

// A process takes over the public socket before it has a table: requests that waited in its queue wait a little more.
async function firstRoutes() {
  for (let waited = 0; routes === undefined && waited < LONGEST_START_MS; waited += 2) await scheduler.wait(2);
  return routes;
}

export default {
  async fetch(request, env) {
    const known = routes ?? (await firstRoutes());
    if (known === undefined) return plain(503, "The host has not said where requests go.");
    const url = new URL(request.url);
    const route = known.at(url.hostname);
    if (route === undefined) return missing(url, known);
    const version = route.pick(Math.random());
    if (version === undefined) return plain(503, "The Worker " + route.name + " has no deployment.");
    if (version.secrets === null) return plain(503, "The secrets of this Version are lost.");
    if (!version.handlers.includes("fetch")) return plain(404, "Not found.");
    try {
      return await versionObject(env, version.versionUid).fetch(request);
    } catch (error) {
      console.error("a request could not be served: " + error.message);
      return plain(500, "Internal Server Error");
    }
  },
};
