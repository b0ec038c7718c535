// host/doc.js: a DataDocument as RFC 8785 canonical text, read through own property descriptors only (DW-14).
// Runs no getter and no toJSON; a Proxy is read in one pass through its traps. Needs no stack: depth is bounded by size.
import * as p from "./prim.js";

export const MAX_BYTES = 1048576;
export const MAX_PROPERTIES = 1024;

const faults = new p.WeakMapC();
const fault = (kind, why) => {
  const error = new p.TErr(why);
  p.weakSet(faults, error, kind);
  return error;
};
/** Of an error thrown by `canon`: "too_large", "invalid", or undefined for an error that is none of ours. */
export const faultKind = (error) => p.weakGet(faults, error);

const invalid = (why) => fault("invalid", "the document holds " + why);
const noObject = () => invalid("no object at its root: wrap the value, as in { value: ... }, or give nothing");
const tooLarge = () => fault("too_large", "the document is larger than " + MAX_BYTES + " bytes");

const LONGEST_KEY = 64;
const LONGEST_PATH = 200;

const isWordUnit = (unit) =>
  (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x30 && unit <= 0x39) || unit === 0x5f;

// `.name`, or `["another key"]`.
const member = (key) => {
  let isWord = key.length > 0 && key.length <= LONGEST_KEY;
  for (let i = 0; isWord && i < key.length; i++) isWord = isWordUnit(p.charCodeAt(key, i));
  return isWord ? "." + key : "[" + p.JSONstringify(p.slice(key, 0, LONGEST_KEY)) + "]";
};

// Where the value is that was read last, as `.a[3].b`; the end of a long one.
const pathOf = (frame) => {
  let path = "";
  for (; frame !== null; frame = frame.parent) {
    if (path.length > LONGEST_PATH) return "..." + path;
    const i = frame.next - 1;
    path = (frame.keys === undefined ? "[" + i + "]" : member(frame.keys[i])) + path;
  }
  return path;
};

const located = (error, frame) =>
  frame !== null && faultKind(error) === "invalid"
    ? fault("invalid", p.gopd(error, "message").value + " at " + pathOf(frame))
    : error;

const text = (value) => {
  if (!p.isWellFormed(value)) throw invalid("a lone surrogate");
  return p.JSONstringify(value);
};

/** The value of an own enumerable data property; anything else is refused. */
const own = (object, key) => {
  const d = p.gopd(object, key);
  if (d === undefined) throw invalid("a hole");
  if (!p.hasOwn(d, "value")) throw invalid("an accessor");
  if (!d.enumerable) throw invalid("a property that is not enumerable");
  return d.value;
};

const arrayFrame = (array, parent) => {
  if (p.getProto(array) !== p.ArrProto) throw invalid("an array with another prototype");
  const length = p.gopd(array, "length").value;
  if (p.ownKeys(array).length !== length + 1) throw invalid("a hole or an extra array property");
  return { __proto__: null, object: array, keys: undefined, length, next: 0, parent };
};

const objectFrame = (object, parent) => {
  const proto = p.getProto(object);
  if (proto !== p.ObjProto && proto !== null) throw invalid("an object that is not plain");
  const keys = p.ownKeys(object);
  const length = keys.length;
  if (length > MAX_PROPERTIES) throw invalid("an object with more than " + MAX_PROPERTIES + " properties");
  for (let i = 0; i < length; i++) if (typeof keys[i] !== "string") throw invalid("a symbol");
  p.sort(keys);
  return { __proto__: null, object, keys, length, next: 0, parent };
};

const open = (value, parent) => (p.isArray(value) ? arrayFrame(value, parent) : objectFrame(value, parent));

const leaf = (value) => {
  switch (typeof value) {
    case "string":
      return text(value);
    case "number":
      if (!p.isFin(value)) throw invalid("a number that is not finite");
      return p.JSONstringify(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      return value === null ? "null" : undefined;
    case "undefined":
      throw invalid("undefined inside");
    default:
      throw invalid("a " + typeof value);
  }
};

const write = (root, reading) => {
  const path = new p.SetC();
  let frame = open(root, null);
  reading.frame = frame;
  p.setAdd(path, root);
  let out = frame.keys === undefined ? "[" : "{";
  while (frame !== null) {
    if (out.length > MAX_BYTES) throw tooLarge();
    if (frame.next === frame.length) {
      out += frame.keys === undefined ? "]" : "}";
      p.setDel(path, frame.object);
      frame = frame.parent;
      reading.frame = frame;
      continue;
    }
    const i = frame.next++;
    if (i !== 0) out += ",";
    const key = frame.keys === undefined ? "" + i : frame.keys[i];
    if (frame.keys !== undefined) out += text(key) + ":";
    const value = own(frame.object, key);
    const written = leaf(value);
    if (written !== undefined) {
      out += written;
      continue;
    }
    if (p.setHas(path, value)) throw invalid("a cycle");
    frame = open(value, frame);
    reading.frame = frame;
    p.setAdd(path, value);
    out += frame.keys === undefined ? "[" : "{";
  }
  return out;
};

/**
 * The canonical text of a whole document, a plain or null-prototype object of at most 1048576 bytes.
 * Throws an error that `faultKind` knows; `undefined`, which stands for no document, is the caller's case.
 */
export const canon = (root) => {
  const reading = { __proto__: null, frame: null };
  let out;
  try {
    if (typeof root !== "object" || root === null || p.isArray(root)) throw noObject();
    out = write(root, reading);
  } catch (error) {
    if (p.weakHas(faults, error)) throw located(error, reading.frame);
    throw invalid("a Proxy that throws");
  }
  if (out.length > MAX_BYTES || p.utf8len(out) > MAX_BYTES) throw tooLarge();
  return out;
};
