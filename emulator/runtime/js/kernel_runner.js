// The kernel of a runner: one Durable Object that holds the host's socket and starts and stops execution contexts.
// Each context is a fresh isolate whose class is a facet, joined by a socket pair that speaks for that context alone. An
// isolate may be loaded ahead, its app unevaluated; it serves one context or none.
//
// host -> kernel: "!start <ctx> <version json>\n<start text for the isolate>", "!stop <ctx>", "!prepare <version json>",
//                 "!reply <n> <text>", "!ping <n>", "<ctx> <frame>"
// kernel -> host: "!stopped <ctx>", "!closed <ctx>", "!failed <ctx> <why>", "!unreadable <ctx> <why>", "!call <n> <json>", "!pong <n>",
//                 "<ctx> <frame>"
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { Host, Outbound, UNAVAILABLE, codeOf, isolateOf, mendBy, openHost } from "kernel_shared.js";
import { callThrough } from "services.js";
import CHANNEL from "channel.txt";
import FAILURES from "failures.txt";
import HISTORY from "history.txt";
import RUN from "run.txt";
import SETTLING from "settling.txt";
import STEPS from "steps.txt";

export { Host, Outbound };

const MAIN = {
  name: "host/run.js",
  modules: {
    "host/run.js": { js: RUN },
    "host/steps.js": { js: STEPS },
    "host/history.js": { js: HISTORY },
    "host/channel.js": { js: CHANNEL },
    "host/failures.js": { js: FAILURES },
    "host/settling.js": { js: SETTLING },
  },
};

/** What a service binding in a context calls: the gateway's router answers (MW-20). */
export class Service extends WorkerEntrypoint {
  fetch(request) {
    return callThrough(this.env.GATEWAY, this.ctx.props.targetUid, request);
  }
}

/** `text` up to its first `separator`, and what follows it. */
function cut(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function pause() {
  return scheduler.wait(0);
}

export class K extends DurableObject {
  #host;
  #calls;
  #live = new Map(); // context id -> {isolate, socket}
  #owners = new Map(); // isolate number -> id of its live context
  #isolates = 0;
  #ahead;
  #loaded = Promise.resolve();

  fetch() {
    if (this.#host !== undefined) return new Response("taken", { status: 409 });
    const { host, calls, response } = openHost((text) => this.#receive(text));
    this.#host = host;
    this.#calls = calls;
    return response;
  }

  /** Called by `Host`: the reply text of a binding call, which only a live context can make. */
  answer({ isolate, ...props }, body) {
    const contextId = this.#owners.get(isolate);
    return contextId === undefined ? UNAVAILABLE : this.#calls.ask({ ...props, contextId }, body);
  }

  #receive(text) {
    const [head, rest] = cut(text, " ");
    switch (head) {
      case "!start":
        return this.#start(rest);
      case "!stop":
        return this.#stop(rest);
      case "!prepare":
        return this.#prepare(rest);
      case "!reply":
        return this.#calls.reply(rest);
      case "!ping":
        return this.#host.send("!pong " + rest);
      default:
        return this.#live.get(head)?.socket?.send(rest);
    }
  }

  async #start(text) {
    const [id, body] = cut(text, " ");
    const [version, start] = cut(body, "\n");
    const isolate = this.#take(version);
    const context = { isolate, socket: undefined };
    this.#live.set(id, context);
    this.#owners.set(isolate.number, id);
    try {
      const socket = await isolate.socket;
      if (this.#live.get(id) !== context) return;
      context.socket = socket;
      this.#join(id, context);
      socket.send(start);
    } catch (error) {
      const verb = error.isUnreadable ? "!unreadable " : "!failed ";
      if (this.#live.get(id) === context) this.#host.send(verb + id + " " + error.message);
    }
  }

  // A frame is let through only while its context lives: after the ack of a stop there is none (DW-39).
  #join(id, context) {
    context.socket.addEventListener("message", ({ data }) => {
      if (this.#live.get(id) === context && typeof data === "string") this.#host.send(id + " " + data);
    });
    context.socket.addEventListener("close", () => {
      if (this.#live.get(id) === context) this.#host.send("!closed " + id);
    });
  }

  #stop(id) {
    const context = this.#live.get(id);
    this.#live.delete(id);
    if (context !== undefined) this.#drop(context.isolate);
    this.#host.send("!stopped " + id);
  }

  #prepare(version) {
    if (this.#ahead?.version === version) return;
    if (this.#ahead !== undefined) this.#drop(this.#ahead);
    this.#ahead = this.#load(version);
  }

  #take(version) {
    if (this.#ahead?.version !== version) return this.#load(version);
    const isolate = this.#ahead;
    this.#ahead = undefined;
    return isolate;
  }

  #load(version) {
    const isolate = { version, number: ++this.#isolates, facet: undefined, isDropped: false, socket: undefined };
    isolate.socket = this.#loaded.then(() => this.#open(isolate));
    this.#loaded = isolate.socket.then(pause, pause); // one after the other, so that the host is heard in between
    isolate.socket.catch(() => {}); // told to the context that waits for it, if there is one
    return isolate;
  }

  async #open(isolate) {
    const version = JSON.parse(isolate.version);
    const code = await this.#codeOf(version.code);
    if (isolate.isDropped) throw new Error("dropped");
    const worker = this.env.LOADER.load(isolateOf(code, version, this.ctx.exports, isolate.number));
    isolate.facet = "f" + isolate.number;
    const facet = this.ctx.facets.get(isolate.facet, () => ({ class: worker.getDurableObjectClass("RunDO") }));
    const { webSocket } = await facet.fetch("http://run/", { headers: { upgrade: "websocket" } });
    webSocket.accept();
    return webSocket;
  }

  async #codeOf(digest) {
    try {
      return await codeOf(this.env, digest, MAIN, mendBy((...call) => this.#calls.ask(...call)));
    } catch (error) {
      error.isUnreadable = true; // not the fault of any context
      throw error;
    }
  }

  #drop(isolate) {
    isolate.isDropped = true;
    this.#owners.delete(isolate.number);
    if (isolate.facet !== undefined) this.ctx.facets.abort(isolate.facet, new Error("stopped by the host"));
  }
}

export default {
  fetch(request, env) {
    return env.K.get(env.K.idFromName("k")).fetch(request);
  },
};
