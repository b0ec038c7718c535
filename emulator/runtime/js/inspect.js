// host/inspect.js: main module of an isolate that looks at a bundle's exports. Never constructs or calls app code and
// never reads through an accessor; only Proxy traps and module evaluation can run, and the process is killed at a
// deadline (MW-10, DW-20). Answers JSON {failure} or {handlers, classes}.
import { JSONstringify, ObjProto, ProxyC, Resp, append, construct, getProto, gopd, isArray, ownKeys, sort } from "./prim.js";
import { describe, ownValue } from "./errors.js";

const HANDLERS = ["fetch", "scheduled", "queue"];
const LONGEST_CHAIN = 128;

function isObject(value) {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

// `construct` of the outer Proxy answers instead of the class; the engine still asks first whether it could be done.
function isConstructible(value) {
  try {
    construct(new ProxyC(value, { __proto__: null, construct: () => ({ __proto__: null }) }), []);
    return true;
  } catch {
    return false;
  }
}

function isWorkflowClass(value) {
  if (typeof value !== "function" || !isConstructible(value)) return false;
  let object = ownValue(value, "prototype");
  for (let hop = 0; hop < LONGEST_CHAIN && isObject(object); hop++) {
    if (gopd(object, "run") !== undefined) return typeof ownValue(object, "run") === "function";
    object = getProto(object);
  }
  return false;
}

function isPlainObject(value) {
  if (typeof value !== "object" || value === null || isArray(value)) return false;
  const prototype = getProto(value);
  return prototype === ObjProto || prototype === null;
}

function handlersOf(value) {
  const found = [];
  for (let i = 0; i < HANDLERS.length; i++) {
    if (typeof ownValue(value, HANDLERS[i]) === "function") append(found, HANDLERS[i]);
  }
  return found;
}

function classesOf(namespace) {
  const found = [];
  const names = ownKeys(namespace);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (typeof name !== "string" || name === "default") continue;
    if (holds(() => isWorkflowClass(namespace[name]))) append(found, name);
  }
  return sort(found);
}

// A trap that throws, or an export that was never initialised, proves nothing.
function holds(question) {
  try {
    return question();
  } catch {
    return false;
  }
}

// JSON by hand: an array would be asked for a `toJSON` that the app may have put on its prototype.
function listText(names) {
  let text = "";
  for (let i = 0; i < names.length; i++) text += (i === 0 ? "" : ",") + JSONstringify(names[i]);
  return "[" + text + "]";
}

function failure(message) {
  return new Resp('{"failure":' + JSONstringify(message) + "}");
}

async function inspect() {
  let namespace;
  try {
    namespace = (await import("./main.js")).app;
  } catch (error) {
    return failure("the main module could not be evaluated: " + describe(error));
  }
  if (!holds(() => isPlainObject(namespace.default))) {
    return failure("the default export of the main module is not a plain object");
  }
  const handlers = listText(handlersOf(namespace.default));
  return new Resp('{"handlers":' + handlers + ',"classes":' + listText(classesOf(namespace)) + "}");
}

export default { fetch: inspect };
