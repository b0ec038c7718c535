// host/http.js: main module of an isolate that answers HTTP requests with the app's `fetch` handler (MW-10, MW-14). The
// app evaluates after this module, and runs beside it (rules of prim.js).
import { Resp, TErr, apply, freeze, getProto, log, respStatus } from "./prim.js";
import { envMaker } from "./bindings.js";
import { describe, namedError, ownValue } from "./errors.js";

let app;

/** The handler and the function that makes its env; the env's captures come first, then the app evaluates. */
async function load(native) {
  const makeEnv = envMaker(native);
  const main = (await import("./main.js")).app.default;
  const handler = ownValue(main, "fetch");
  if (typeof handler !== "function") throw new TErr("the default export has no fetch handler");
  return { __proto__: null, makeEnv, main, handler };
}

/** The app's own `ctx`: the engine's would hand it the isolate's entrypoints and props. */
function contextOf(native) {
  const nativeWaitUntil = getProto(native).waitUntil;
  const state = { __proto__: null, pending: 1 };
  const waitUntil = freeze((promise) => {
    if (state.pending === 0) throw namedError("context_expired", "the request of this context has ended");
    state.pending += 1;
    apply(nativeWaitUntil, native, [settled(promise, state)]);
  });
  return { __proto__: null, ctx: freeze({ __proto__: null, waitUntil }), state };
}

// Never rejects: what the app let run on goes to the log only.
async function settled(promise, state) {
  try {
    await promise;
  } catch (error) {
    log("uncaught in waitUntil: " + describe(error));
  }
  state.pending -= 1;
}

function failure(error) {
  log("uncaught in fetch: " + describe(error));
  return new Resp("Internal Server Error\n", {
    __proto__: null,
    status: 500,
    headers: { __proto__: null, "content-type": "text/plain;charset=utf-8" },
  });
}

async function answer(request, native, nativeContext) {
  const context = contextOf(nativeContext);
  try {
    app ??= await load(native);
    const response = await apply(app.handler, app.main, [request, app.makeEnv(), context.ctx]);
    respStatus(response); // throws on anything but a Response of this runtime
    return response;
  } catch (error) {
    return failure(error);
  } finally {
    context.state.pending -= 1;
  }
}

export default { fetch: answer };
