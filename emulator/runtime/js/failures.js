// host/failures.js: the errors a step rejects with, their private provenance, and reading what app code threw.
import { namedError } from "./errors.js";
import * as p from "./prim.js";

const LONGEST_MESSAGE = 4096;
const MOST_HOPS = 16;
const origins = new p.WeakMapC();

const hostError = (name, message, step) => {
  const error = namedError(name, message);
  p.weakSet(origins, error, { __proto__: null, name, step });
  return error;
};

export const stepFailed = (step, message) => hostError("step_failed", message, step);
export const waitTimeout = (step, message) => hostError("wait_timeout", message, step);

/** The step whose `step_failed` this very object is, or undefined: a copy has no provenance (DW-38). */
export const failedStepOf = (error) => {
  const origin = p.weakGet(origins, error);
  return origin !== undefined && origin.name === "step_failed" ? origin.step : undefined;
};

const messageIn = (error) => {
  for (let at = error, hop = 0; at !== null && hop < MOST_HOPS; at = p.getProto(at), hop++) {
    const d = p.gopd(at, "message");
    if (d !== undefined) return p.hasOwn(d, "value") && typeof d.value === "string" ? d.value : undefined;
  }
  return undefined;
};

/** Text of a thrown value: well-formed, bounded, and read without running a getter. */
export const messageOf = (thrown) => {
  let text;
  try {
    if (typeof thrown === "string") text = thrown;
    else if (thrown !== null && (typeof thrown === "object" || typeof thrown === "function")) text = messageIn(thrown);
    else if (typeof thrown !== "symbol") text = "" + thrown;
  } catch {
    text = undefined;
  }
  if (text === undefined) text = "a thrown value without a message";
  return p.toWellFormed(p.slice(text, 0, LONGEST_MESSAGE));
};
