// host/arguments.js: the rules for what app code gives to a step or a batch, read without running a getter (DW-30, DW-34 to
// DW-36, MW-19).
import * as p from "./prim.js";

const NAME_LENGTH = 256;
const LONGEST_SHOWN = 64;

const refuse = (why) => {
  throw new p.TErr(why);
};

const scalars = (text) => {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = p.charCodeAt(text, i);
    if (unit < 0xdc00 || unit > 0xdfff) count++;
  }
  return count;
};

/** A step name or event type: 1 to 256 Unicode scalar values. */
export const nameOf = (value, what) => {
  if (typeof value !== "string") refuse(what + " must be a string");
  const fits = value.length >= 1 && value.length <= 2 * NAME_LENGTH && p.isWellFormed(value);
  if (!fits || scalars(value) > NAME_LENGTH) refuse(what + " must have 1 to 256 Unicode scalar values");
  return value;
};

const integer = (value, low, high, what) => {
  if (typeof value !== "number" || !p.isInt(value) || value < low || value > high) {
    refuse(what + " must be an integer from " + low + " to " + high);
  }
  return value + 0; // -0 is 0
};

// What is wrong with a key of an app's, and what it may be; keys of ours need no escapes.
const unknown = (key, names) => {
  const known = p.ownKeys(names);
  let may = "";
  for (let i = 0; i < known.length; i++) may += (i === 0 ? "" : ", ") + known[i];
  const shown = typeof key === "string" ? p.JSONstringify(p.slice(key, 0, LONGEST_SHOWN)) : "a symbol";
  return " has an unknown member, " + shown + ": it may have " + may;
};

/** The values of a closed plain object by the names it may have, as a null-prototype object. */
export const closed = (value, names, what) => {
  if (typeof value !== "object" || value === null || p.isArray(value)) refuse(what + " must be an object");
  const proto = p.getProto(value);
  if (proto !== p.ObjProto && proto !== null) refuse(what + " must be a plain object");
  const out = { __proto__: null };
  const keys = p.ownKeys(value);
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== "string" || !p.hasOwn(names, keys[i])) refuse(what + unknown(keys[i], names));
    const d = p.gopd(value, keys[i]);
    if (d === undefined || !p.hasOwn(d, "value")) refuse(what + " must have plain values only");
    out[keys[i]] = d.value;
  }
  return out;
};

const POLICY = { __proto__: null, maxAttempts: true, initialDelaySeconds: true, backoff: true, maxDelaySeconds: true };
const WAIT = { __proto__: null, type: true, timeoutSeconds: true };
const LONGEST_DELAY_S = 43200;

const or = (value, fallback) => (value === undefined ? fallback : value);

/** How a refusal of a step's argument begins. */
export const ofStep = (name) => "step " + p.JSONstringify(name) + ": ";

/** A retry policy with its defaults as canonical text, or null when none was given (DW-34). `of`: see `ofStep`. */
export const policyText = (value, of) => {
  if (value === undefined) return null;
  const given = closed(value, POLICY, of + "a retry policy");
  const backoff = or(given.backoff, "constant");
  if (backoff !== "constant" && backoff !== "exponential") refuse(of + "backoff must be constant or exponential");
  const attempts = integer(given.maxAttempts, 1, 100, of + "maxAttempts");
  const initial = integer(or(given.initialDelaySeconds, 0), 0, LONGEST_DELAY_S, of + "initialDelaySeconds");
  const longest = integer(or(given.maxDelaySeconds, LONGEST_DELAY_S), 0, LONGEST_DELAY_S, of + "maxDelaySeconds");
  return '{"backoff":"' + backoff + '","initialDelaySeconds":' + initial + ',"maxAttempts":' + attempts
    + ',"maxDelaySeconds":' + longest + "}";
};

/** The seconds of a sleep (DW-35). */
export const sleepSeconds = (value, of) => integer(value, 0, 31536000, of + "seconds");

/** `{type, timeoutSeconds}` of a wait, as a null-prototype object (DW-36). */
export const waitOptions = (value, of) => {
  const given = closed(value, WAIT, of + "the options of waitForEvent");
  const type = nameOf(given.type, of + "type");
  return { __proto__: null, type, timeoutSeconds: integer(given.timeoutSeconds, 1, 31536000, of + "timeoutSeconds") };
};

/** The seconds that a message's retry is put off by; null leaves it to the consumer (MW-19). */
export const delaySeconds = (value) => (value === undefined ? null : integer(value, 0, LONGEST_DELAY_S, "delaySeconds"));

/** The effect of a `do` step. */
export const effectOf = (value, of) => {
  if (typeof value !== "function") refuse(of + "the effect of a step must be a function");
  return value;
};
