// host/errors.js: errors made for the app and errors read from it, beside app code (rules of prim.js).
import { Err, dataDesc, defineProperty, getProto, gopd, hasOwn, slice } from "./prim.js";

const LONGEST_MESSAGE = 500;

/** An Error whose `name` is the contract's word for the failure: own, read-only, not enumerable (DW-18). */
export function namedError(name, message) {
  const error = new Err(message);
  defineProperty(error, "name", dataDesc(name, false, false, false));
  return error;
}

/** The value of an own data property, or undefined: runs no accessor. */
export function ownValue(object, key) {
  const own = gopd(object, key);
  return own !== undefined && hasOwn(own, "value") ? own.value : undefined;
}

/** "Name: message" of whatever an app threw, for reports; at most 500 characters. Runs Proxy traps only. */
export const describe = (thrown) => slice(describeWhole(thrown), 0, LONGEST_MESSAGE);

/** The same, however long. */
export function describeWhole(thrown) {
  if (typeof thrown === "string") return thrown;
  if (thrown === null || (typeof thrown !== "object" && typeof thrown !== "function")) return "a thrown " + typeof thrown;
  try {
    const message = ownValue(thrown, "message");
    return nameOf(thrown) + ": " + (typeof message === "string" ? message : "no message");
  } catch {
    return "an unreadable error";
  }
}

function nameOf(thrown) {
  let object = thrown;
  for (let hop = 0; hop < 4 && object !== null; hop++) {
    const name = ownValue(object, "name");
    if (typeof name === "string") return name;
    object = getProto(object);
  }
  return "Error";
}
