// Where the code of one Version runs in a gateway: V and its isolates. Knows neither routes nor the host's socket.
import { DurableObject } from "cloudflare:workers";
import { codeOf, isolateOf, mendBy } from "kernel_shared.js";
import { depthKey } from "nesting.js";
import { plain } from "routes.js";
import { counted } from "streams.js";
import EVENTS from "events.txt";
import HTTP from "http.txt";

const MAIN = { name: "host/http.js", modules: { "host/http.js": { js: HTTP }, "host/events.js": { js: EVENTS } } };
const SYSTEM = "system";

/** What the router, K and every V share: one isolate runs them all. */
export const common = {
  routes: undefined,
  // Versions by uid from their first table until they are retired: a request keeps the Version it was given (WD-03).
  versions: new Map(),
  // "system", "frozen/<ms>" or "ahead/<ms>", as the host said last.
  clock: SYSTEM,
  // Versions whose code may be running, as the host was told: uid -> true, or a promise until it has been told.
  busy: new Map(),
  // uids of the Versions whose V has isolates that go by a controlled clock.
  controlled: new Set(),
};

const ids = new Map(); // of the objects by Version: to derive one costs a hash

export function versionObject(env, versionUid) {
  let id = ids.get(versionUid);
  if (id === undefined) ids.set(versionUid, (id = env.V.idFromName(versionUid)));
  return env.V.get(id);
}

/** Code that goes by one kind of clock: its facet is named after the kind, so code never meets the other one. */
class App {
  requests; // the facet, once the app's code was evaluated in it
  loading;
  isOpen = false;
  control = "http://" + crypto.randomUUID() + "/"; // below it lies what the kernel asks of the isolate, and nobody else
  #told;
  #telling = Promise.resolve();

  constructor(kind) {
    this.kind = kind;
  }

  /** Resolves once the isolate goes by the clock as it is now. */
  follow(requests) {
    this.#telling = this.#telling.catch(() => {}).then(() => this.#tell(requests));
    return this.#telling;
  }

  forget() {
    this.#told = undefined;
  }

  async #tell(requests) {
    while (this.kind !== SYSTEM && this.#told !== common.clock) {
      const clock = common.clock;
      await requests.fetch(this.control + "clock/" + clock);
      this.#told = clock;
    }
  }
}

/**
 * Holds the isolates of one Version as facets, with all their requests: the abort of a facet ends whatever they still do.
 * A plain entrypoint would be cheaper by a hop, but nothing ends its streams and promises.
 */
export class V extends DurableObject {
  #apps = new Map(); // by kind of clock
  #uid = this.ctx.id.name;
  #open = 0; // requests without an answer yet, and bodies under way
  #taken = 0;
  #count = (change) => (this.#open += change);

  fetch(request) {
    const app = this.#apps.get(kindOfClock());
    const isSaid = common.busy.get(this.#uid) === true;
    this.#take();
    const answer = isSaid && app?.requests !== undefined ? ask(app, request) : this.#answer(request);
    return answer.then(this.#answered, this.#failed);
  }

  #take() {
    this.#open += 1;
    this.#taken += 1;
  }

  #answered = (response) => {
    this.#open -= 1;
    return counted(response, this.#count);
  };

  #failed = (error) => {
    this.#open -= 1;
    throw error;
  };

  // Before the code runs: should it never stop, the host knows whose it may be. Said again only after a rest.
  async #busy() {
    const told = common.busy.get(this.#uid);
    if (told !== true) await (told ?? this.#tellBusy());
  }

  #tellBusy() {
    const told = this.#sayAhead("!busy").then(() => common.busy.set(this.#uid, true));
    common.busy.set(this.#uid, told);
    return told;
  }

  /** Tell the host when the Version is at rest. */
  async settle() {
    const taken = this.#taken;
    if ((await this.running()) > 0 || taken !== this.#taken || common.busy.get(this.#uid) !== true) return;
    common.busy.delete(this.#uid);
    await this.#say("!idle");
  }

  get #kernel() {
    return this.env.K.get(this.env.K.idFromName("k"));
  }

  #say(verb) {
    return this.#kernel.say(verb, this.#uid);
  }

  // Resolves when the word is out, however busy the process is then.
  async #sayAhead(verb) {
    await this.#say(verb);
    await scheduler.wait(0);
  }

  /** Run another handler than `fetch`; resolves to the text in which http.js tells its end. */
  async call(handler, event) {
    this.#take();
    try {
      await this.#busy();
      const app = await this.#opened();
      if (app === undefined) throw new Error("the Version was retired");
      return await (await ask(app, app.control + "call/" + handler, { method: "POST", body: event })).text();
    } finally {
      this.#open -= 1;
    }
  }

  async #answer(request) {
    await this.#busy();
    const app = await this.#opened();
    return app === undefined ? plain(503, "This Version was retired.") : ask(app, request);
  }

  /** Resolves once no isolate shows an earlier state of a controlled clock. */
  async follow() {
    for (const app of this.#apps.values()) {
      try {
        if (app.requests !== undefined) await app.follow(app.requests);
      } catch {
        app.requests = undefined; // broken: it is told when it is asked for anew
      }
    }
  }

  /** Zero once no handler and no promise given to `waitUntil` is unsettled and no body streams. */
  async running() {
    let count = this.#open;
    for (const app of this.#apps.values()) count += await runningIn(app);
    return count;
  }

  async stop() {
    for (const app of this.#apps.values()) {
      if (app.isOpen) this.ctx.facets.abort(app.kind, new Error("retired by the host"));
    }
    this.#apps.clear();
    common.controlled.delete(this.#uid);
    if (common.busy.delete(this.#uid)) await this.#say("!idle");
  }

  /** The code that goes by the present kind of clock, evaluated; undefined once the Version is retired. */
  async #opened() {
    const app = this.#app(kindOfClock());
    if (app.requests === undefined) {
      app.loading ??= this.#load(app).finally(() => (app.loading = undefined));
      await app.loading;
    }
    return app.requests === undefined ? undefined : app;
  }

  #app(kind) {
    if (!this.#apps.has(kind)) this.#apps.set(kind, new App(kind));
    return this.#apps.get(kind);
  }

  async #load(app) {
    const uid = this.#uid;
    if (!common.versions.has(uid)) return;
    await this.#sayAhead("!loading");
    try {
      const mend = mendBy((...call) => this.#kernel.answer(...call));
      const code = await codeOf(this.env, common.versions.get(uid).code, MAIN, mend);
      if (!common.versions.has(uid)) return;
      await this.#begin(app, this.#facet(app, code, common.versions.get(uid)));
    } finally {
      await this.#say("!loaded");
    }
  }

  async #begin(app, requests) {
    app.isOpen = true;
    app.forget();
    if (app.kind !== SYSTEM) common.controlled.add(this.#uid);
    await app.follow(requests);
    await requests.fetch(app.control + "load");
    await app.follow(requests);
    if (this.#apps.get(app.kind) === app) app.requests = requests;
  }

  #facet(app, code, version) {
    const isolate = isolateOf(code, version, this.ctx.exports);
    const flags = [...isolate.compatibilityFlags, "nodejs_als"];
    return this.ctx.facets.get(app.kind, () => {
      const env = { ...isolate.env, CONTROL: app.control, DEPTH_KEY: depthKey(), SETTLE: this.#settle(version) };
      const worker = this.env.LOADER.load({ ...isolate, env, compatibilityFlags: flags });
      return { class: worker.getDurableObjectClass("Requests") };
    });
  }

  /** By which the isolate settles messages of batches that this Version was given (MW-19). */
  #settle({ workerUid, versionUid }) {
    return this.ctx.exports.Host({ props: { versionUid, binding: "batch", kind: "batch", targetUid: workerUid } });
  }
}

function kindOfClock() {
  return common.clock === SYSTEM ? SYSTEM : "controlled";
}

async function ask(app, request, init) {
  try {
    return await app.requests.fetch(request, init);
  } catch (error) {
    app.requests = undefined; // the facet may have broken: the next request asks for it anew
    throw error;
  }
}

async function runningIn(app) {
  if (app.requests === undefined) return app.loading === undefined ? 0 : 1;
  try {
    return Number(await (await app.requests.fetch(app.control + "running")).text());
  } catch {
    return 0; // a broken facet runs nothing
  }
}
