// host/http.js: main module of an isolate that runs the app's handlers: `fetch` for HTTP requests, `scheduled` and `queue` when
// the kernel says so (MW-10, MW-14, MW-17). The app evaluates after this module, and runs beside it (rules of prim.js).
import { AsyncLocalStorage } from "node:async_hooks";
import {
  JSONparse, JSONstringify, Req, Resp, TErr, apply, freeze, getProto, gopd, reqText, respStatus, slice, startsWith,
  toLowerCase, uncurry,
} from "./prim.js";
import { envMaker, hostCall } from "./bindings.js";
import { replaceClock, setNow, setOffset } from "./clock.js";
import { errorText, replaceConsole, tell, wholeError } from "./console.js";
import { namedError, ownValue } from "./errors.js";
import { deliveryOf, scheduledEvent } from "./events.js";
import { DEPTH, countDepthBy } from "./service_binding.js";
import { replaceFetch } from "./turns.js";

// What the kernel asks for itself, before the first request and at any time: URLs below CONTROL of the isolate's own env,
// which nobody else knows.
const requestUrl = uncurry(gopd(Request.prototype, "url").get);
const headersOf = uncurry(gopd(Request.prototype, "headers").get);
const header = uncurry(Headers.prototype.get);
const isBodyUsed = uncurry(gopd(getProto(Response.prototype), "bodyUsed").get);
const removeHeader = uncurry(Headers.prototype.delete);

const HANDLERS = ["fetch", "scheduled", "queue"];

let app;
let running = 0;
let isClockReplaced = false;

// Which request the running code belongs to, followed through everything asynchronous.
const requests = new AsyncLocalStorage();
const runIn = uncurry(AsyncLocalStorage.prototype.run);
const runningIn = uncurry(AsyncLocalStorage.prototype.getStore);
countDepthBy(() => {
  const state = runningIn(requests);
  return state === undefined ? 0 : state.depth;
});

/** The handlers and the function that makes their env; the env's captures come first, then the app evaluates. */
async function load(native) {
  replaceConsole(native);
  replaceFetch();
  const makeEnv = envMaker(native);
  const settle = hostCall(native.SETTLE);
  const main = (await import("./main.js")).app.default;
  const handlers = { __proto__: null };
  for (let i = 0; i < HANDLERS.length; i++) handlers[HANDLERS[i]] = ownValue(main, HANDLERS[i]);
  return { __proto__: null, makeEnv, settle, main, handlers };
}

/** Call a handler as the module had it when it was evaluated. */
function run(name, given, ctx) {
  const handler = app.handlers[name];
  if (typeof handler !== "function") throw new TErr("the default export has no " + name + " handler");
  return apply(handler, app.main, [given, app.makeEnv(), ctx]);
}

/**
 * The app's own `ctx`: the engine's would hand it the isolate's entrypoints and props. It has expired once the handler
 * and every promise given to it have settled; code of the request itself, such as a body that still streams, only runs
 * while the engine keeps the request, and may use it as long (MW-14).
 */
function contextOf(native, state) {
  const nativeWaitUntil = getProto(native).waitUntil;
  const waitUntil = freeze((promise) => {
    if (state.pending === 0 && runningIn(requests) !== state) {
      throw namedError("context_expired", "the request of this context has ended");
    }
    state.pending += 1;
    running += 1;
    apply(nativeWaitUntil, native, [settled(promise, state)]);
  });
  return freeze({ __proto__: null, waitUntil });
}

// Never rejects: what the app let run on goes to the log only.
async function settled(promise, state) {
  try {
    await promise;
  } catch (error) {
    tell("error", "uncaught in waitUntil: " + wholeError(error));
  }
  state.pending -= 1;
  running -= 1;
}

// Before the first request: whatever the evaluation throws is told to each request as it comes.
async function loaded(native) {
  try {
    app ??= await load(native);
  } catch {}
  return new Resp(null);
}

function goBy(clock) {
  if (!isClockReplaced) replaceClock(0);
  isClockReplaced = true;
  if (startsWith(clock, "ahead/")) setOffset(+slice(clock, 6));
  else setNow(+slice(clock, 7));
  return new Resp(null);
}

/** Tell the log what a handler threw, and give it back in short: without a secret, so that it may be told elsewhere. */
function uncaught(name, error) {
  tell("error", "uncaught in " + name + ": " + wholeError(error));
  return errorText(error);
}

function failure(error) {
  uncaught("fetch", error);
  return new Resp("Internal Server Error\n", {
    __proto__: null,
    status: 500,
    headers: { __proto__: null, "content-type": "text/plain;charset=utf-8" },
  });
}

/** `given` when it is a Response that answers `request`: a look-alike, a Proxy or an own copy of one cannot be sent. */
function asResponse(given, request) {
  let status;
  try {
    status = respStatus(given);
  } catch {
    throw new TErr("the fetch handler returned " + kindOf(given) + " instead of a Response");
  }
  if (status === 0) throw new TErr("the fetch handler returned Response.error(), which cannot be sent");
  if (isBodyUsed(given)) throw new TErr("the fetch handler returned a Response whose body was used");
  if (status === 101 && !asksForWebSocket(request)) {
    throw new TErr("the fetch handler returned a WebSocket (status 101) for a request that does not ask for one");
  }
  return given;
}

function asksForWebSocket(request) {
  const upgrade = header(headersOf(request), "upgrade");
  return upgrade !== null && toLowerCase(upgrade) === "websocket";
}

function kindOf(value) {
  if (value === undefined || value === null) return "" + value;
  return typeof value === "object" ? "an object of another kind" : "a " + typeof value;
}

async function answer(request, native, ctx, state) {
  try {
    app ??= await load(native);
    return asResponse(await run("fetch", request, ctx), request);
  } catch (error) {
    return failure(error);
  } finally {
    state.pending -= 1;
    running -= 1;
  }
}

/** How `scheduled` or `queue` ended, as text: a failure is told, never thrown (MW-17). */
async function handle(name, request, native, ctx, state) {
  try {
    app ??= await load(native);
    const told = JSONparse(await reqText(request));
    await (name === "queue" ? consume(told, ctx) : run(name, scheduledEvent(told), ctx));
    return new Resp('["returned"]');
  } catch (error) {
    return new Resp('["threw",' + JSONstringify(uncaught(name, error)) + "]");
  } finally {
    state.pending -= 1;
    running -= 1;
  }
}

async function consume(told, ctx) {
  const delivery = deliveryOf(told, app.settle);
  try {
    await run("queue", delivery.batch, ctx);
  } finally {
    await delivery.close();
  }
}

/** The facet that holds every request of a Version in this process. */
export class Requests {
  #native;
  #state;
  #control;
  #depthKey;

  constructor(state, native) {
    this.#native = native;
    this.#control = native.CONTROL;
    this.#depthKey = native.DEPTH_KEY;
    this.#state = state;
  }

  fetch(request) {
    const url = requestUrl(request);
    if (startsWith(url, this.#control)) return this.#obey(slice(url, this.#control.length), request);
    const state = begun();
    const ctx = contextOf(this.#state, state);
    const told = header(headersOf(request), DEPTH);
    if (told !== null && startsWith(told, this.#depthKey)) {
      state.depth = +slice(told, this.#depthKey.length);
      request = new Req(request);
      removeHeader(headersOf(request), DEPTH);
    }
    return runIn(requests, state, answer, request, this.#native, ctx, state);
  }

  // What the kernel asks for: "load", "running", "clock/frozen/<ms>" or "clock/ahead/<ms>" (first of all, and when the clock
  // changed), or "call/" and the name of a handler, with its event as the body.
  async #obey(order, request) {
    if (order === "load") return loaded(this.#native);
    if (order === "running") return new Resp("" + running);
    if (startsWith(order, "clock/")) return goBy(slice(order, 6));
    const state = begun();
    const ctx = contextOf(this.#state, state);
    return runIn(requests, state, handle, slice(order, 5), request, this.#native, ctx, state);
  }
}

function begun() {
  running += 1;
  return { __proto__: null, pending: 1, depth: 0 };
}
