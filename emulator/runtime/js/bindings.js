// host/bindings.js: the `env` of an app, made of its declared vars and bindings and of nothing else (MW-15, DW-22).
//
// The isolate's own env holds VARS (text of a JSON object) and BINDINGS, [[name, kind, stub of the host's entrypoint], ...].
// A stub never reaches the app: each call sends a text and gets a text, that of a service a request and its response. Runs
// beside app code (rules of prim.js).
import { JSONparse, P, TErr, apply, dataDesc, defineProperty, floor, getProto, respText } from "./prim.js";
import { namedError } from "./errors.js";
import { serviceBinding } from "./service_binding.js";
import { workflowBinding } from "./workflow_binding.js";

// Thousands of calls made at once would keep the process busy with nothing else for seconds, and a few dozen with large
// documents would take all of its memory: more than so many of an isolate are never on their way, the others wait in
// order. A call counts once more for each piece of so many characters that it has.
const CALLS_AT_ONCE = 64;
const PIECE_LENGTH = 131072;
let free = CALLS_AT_ONCE;
let first;
let last;

/**
 * A function that makes a fresh env for the isolate's native env. Call it before app code evaluates: it captures what
 * the stubs are called by. vars are fresh JSON values in each env; the bindings are shared and frozen.
 */
export function envMaker(native) {
  const declared = native.BINDINGS;
  const names = [];
  const bindings = [];
  for (let i = 0; i < declared.length; i++) {
    names[i] = declared[i][0];
    bindings[i] = makeBinding(declared[i][1], declared[i][2]);
  }
  const vars = native.VARS;
  return () => {
    const env = JSONparse(vars);
    for (let i = 0; i < names.length; i++) defineProperty(env, names[i], dataDesc(bindings[i], true, true, true));
    return env;
  };
}

function makeBinding(kind, stub) {
  if (kind === "workflow") return workflowBinding(hostCall(stub));
  if (kind === "service") return serviceBinding(stub);
  throw new TErr("a binding of unknown kind " + kind);
}

/** call(text) resolves to the reply as a JSON array, or rejects with the Error that the host named (DW-18). */
export function hostCall(stub) {
  const fetch = getProto(stub).fetch;
  return async (text) => {
    const size = floor(text.length / PIECE_LENGTH) + 1;
    const weight = size < CALLS_AT_ONCE ? size : CALLS_AT_ONCE;
    if (first === undefined && free >= weight) free -= weight;
    else await turn(weight);
    let reply;
    try {
      const response = await apply(fetch, stub, ["http://host/", { __proto__: null, method: "POST", body: text }]);
      reply = JSONparse(await respText(response));
    } catch {
      throw namedError("backend_unavailable", "the host cannot be reached");
    } finally {
      passTurn(weight);
    }
    if (reply[0] === "ok") return reply;
    throw reply[1] === "TypeError" ? new TErr(reply[2]) : namedError(reply[1], reply[2]);
  };
}

function turn(weight) {
  return new P((resolve) => {
    const waiting = { __proto__: null, weight, resolve, next: undefined };
    if (first === undefined) first = waiting;
    else last.next = waiting;
    last = waiting;
  });
}

function passTurn(weight) {
  free += weight;
  while (first !== undefined && first.weight <= free) {
    const waiting = first;
    free -= waiting.weight;
    first = waiting.next;
    waiting.resolve();
  }
}
