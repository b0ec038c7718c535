// The kernel of a gateway: the public socket's requests go to a Version picked by weight, in an isolate kept per Version,
// without a word to the host. The host speaks over the control socket alone.
//
// host -> kernel: "!table <n> <json>", "!clock <n> system|frozen/<ms>|ahead/<ms>", "!retire <n> <versionUid>",
//                 "!running <n> <versionUid>", "!route <n> <hostname>", "!handle <n> <workerUid> <handler> <json>",
//                 "!go <n> yes|no", "!run <n> <versionUid> <handler> <json>", "!settle <n>", "!reply <n> <text>", "!ping <n>"
// kernel -> host: "!done <n>" (after "!running" with a number, after "!route" with "<workerUid> served|idle" or nothing,
//                 after "!handle" and "!run" with its end), "!picked <n> <versionUid>" (after "!handle": the handler runs
//                 after "!go <n> yes"), "!call <n> <json>", "!pong <n>",
//                 "!loading <versionUid>", "!loaded <versionUid>", "!busy <versionUid>", "!idle <versionUid>"
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { Assets, assetsObject, deliverAssets } from "assets.js";
import { V, common, versionObject } from "gateway_version.js";
import { callHandler, runHandler } from "handler_calls.js";
import { Host, Outbound, openHost, reasonOf } from "kernel_shared.js";
import { depthOf, nested } from "nesting.js";
import { Routes, missing, plain } from "routes.js";
import { answerCall, callThrough, withoutUpgrade } from "services.js";
import { passOn, receive } from "ward.js";

export { Assets, Host, Outbound, V };

const LONGEST_START_MS = 10000;

/** The host's end: holds the one WebSocket, as I/O objects belong to the request that made them. */
export class K extends DurableObject {
  #host;
  #calls;
  #picked = new Map(); // calls of handlers that wait for the host's word: number -> resolve

  fetch() {
    if (this.#host !== undefined) return new Response("taken", { status: 409 });
    const { host, calls, response } = openHost((text) => this.#receive(text));
    this.#host = host;
    this.#calls = calls;
    return response;
  }

  /** Called by `Host`: the reply text of a binding call. */
  answer(props, body) {
    return this.#calls.ask(props, body);
  }

  /** Called by V: the watchdog is more patient while code is evaluated, and is told whose code may be running. */
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
      case "!clock":
        return this.#setClock(number, rest);
      case "!retire":
        return this.#retire(number, rest);
      case "!running":
        return this.#count(number, rest);
      case "!route":
        return this.#host.send("!done " + number + " " + whereTo(rest));
      case "!handle":
        return this.#handle(number, rest);
      case "!go":
        this.#picked.get(number)?.(rest === "yes");
        this.#picked.delete(number);
        return;
      case "!run":
        return this.#run(number, rest);
      case "!settle":
        for (const uid of common.busy.keys()) versionObject(this.env, uid).settle();
        return;
      case "!reply":
        return this.#calls.reply(number + " " + rest);
      case "!ping":
        return this.#host.send("!pong " + number);
    }
  }

  #setTable(table) {
    for (const { versions } of table.workers) {
      for (const version of versions) common.versions.set(version.versionUid, version);
    }
    common.routes = new Routes(table);
  }

  // Done once no isolate shows an earlier state: whoever changed the clock may rely on it.
  async #setClock(number, text) {
    common.clock = text;
    await Promise.all([...common.controlled].map((uid) => versionObject(this.env, uid).follow()));
    this.#host.send("!done " + number);
  }

  // Whatever runs for the Version runs below its V, whatever is sent of its assets below its Assets.
  async #retire(number, versionUid) {
    common.versions.delete(versionUid);
    await Promise.all([versionObject(this.env, versionUid).stop(), assetsObject(this.env, versionUid).stop()]);
    this.#host.send("!done " + number);
  }

  async #handle(number, told) {
    const picked = (versionUid) =>
      new Promise((resolve) => {
        this.#picked.set(number, resolve);
        this.#host.send("!picked " + number + " " + versionUid);
      });
    this.#host.send("!done " + number + " " + (await callHandler(this.env, told, picked)));
  }

  async #run(number, told) {
    this.#host.send("!done " + number + " " + (await runHandler(this.env, told)));
  }

  async #count(number, versionUid) {
    const counted = [versionObject(this.env, versionUid).running(), assetsObject(this.env, versionUid).running()];
    const [running, sending] = await Promise.all(counted);
    this.#host.send("!done " + number + " " + (running + sending));
  }
}

/** Whom a name leads to, and whether there is a Version to serve it. */
function whereTo(hostname) {
  const route = common.routes?.named(hostname);
  return route === undefined ? "" : route.workerUid + (route.isServed ? " served" : " idle");
}

/** The host's own socket. */
export class Control extends WorkerEntrypoint {
  fetch(request) {
    return this.env.K.get(this.env.K.idFromName("k")).fetch(request);
  }
}

// A process takes over the public socket before it has a table: requests that waited in its queue wait a little more.
async function firstRoutes() {
  for (let waited = 0; common.routes === undefined && waited < LONGEST_START_MS; waited += 2) await scheduler.wait(2);
  return common.routes;
}

export default {
  fetch(request, env) {
    return common.routes === undefined ? serveLater(request, env) : serve(request, env, common.routes);
  },
};

async function serveLater(request, env) {
  const known = await firstRoutes();
  return known === undefined ? plain(503, "The host has not said where requests go.") : serve(request, env, known);
}

function serve(request, env, known) {
  const route = known.ofUrl(request.url);
  if (route === undefined) return missing(request.url, known);
  const { version, why } = choose(route);
  return version === undefined ? plain(503, why) : deliver(version, request, env, 0);
}

/** The Version that takes a request by the weights in force, or why none can (WD-03). */
function choose(route) {
  const version = route.pick(Math.random());
  if (version === undefined) return { why: "The Worker " + route.name + " has no deployment." };
  if (version.secrets === null) return { why: "The secrets of this Version are lost." };
  if (version.withheld) return { why: "Held files of this Version are lost." };
  return { version };
}

/** The Version's answer, or a host-made one in its place: never throws. `depth` is that of a service call, else 0. */
async function deliver(version, request, env, depth) {
  const handle = () => {
    if (!version.handlers.includes("fetch")) return plain(404, "Not found.");
    const uid = version.versionUid;
    if (version.ward !== null) return passOn(env, version.ward, uid, request, depth);
    return versionObject(env, uid).fetch(nested(request, depth));
  };
  try {
    return await (version.assets === null ? handle() : deliverAssets(env, version, request, handle));
  } catch (error) {
    const { workerUid, versionUid } = version;
    console.error(`Worker ${workerUid}, Version ${versionUid}: a request could not be served: ${reasonOf(error)}`);
    return plain(500, "Internal Server Error");
  }
}

/** A service call: by uid, whatever the URL says. Throws when it cannot be started, and only then (MW-20). */
async function callWorker(env, targetUid, request) {
  const depth = depthOf(request);
  const route = (await firstRoutes())?.of(targetUid);
  const { version, why } = route === undefined ? { why: "There is no such Worker." } : choose(route);
  if (version === undefined) throw new Error(why);
  return deliver(version, withoutUpgrade(request), env, depth);
}

/** What a service binding in an isolate of this process calls: the router, which for a ward is that of the gateway. */
export class Service extends WorkerEntrypoint {
  fetch(request) {
    const { env } = this;
    const { targetUid } = this.ctx.props;
    return env.GATEWAY === undefined ? callWorker(env, targetUid, request) : callThrough(env.GATEWAY, targetUid, request);
  }
}

/** What the gateway passes on to a ward, for the Version that it has picked. */
export class Ward extends WorkerEntrypoint {
  async fetch(sent) {
    await firstRoutes();
    return receive(this.env, sent);
  }
}

/** Service calls of execution contexts, which run in other processes. */
export class Services extends WorkerEntrypoint {
  fetch(request) {
    return answerCall(request, (targetUid, received) => callWorker(this.env, targetUid, received));
  }
}
