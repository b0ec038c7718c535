// host/prim.js: every builtin that host code uses inside an app's isolate, captured before any app module evaluates.
//
// Rules for all host code beside app code:
// - call builtins only through these captures; never through a prototype the app can patch;
// - descriptors, arrays and plain objects inherit from prototypes the app can pollute: read only own fields that are
//   known to be there (`hasOwn`), and build objects with a null prototype;
// - no destructuring of arrays, no spread, no for-of: they look up iterators on app-visible prototypes;
// - resolve promises with primitives or null-prototype values whose `then` cannot be inherited, and attach with `then`.

const R = Reflect;
export const apply = R.apply;
const bind = Function.prototype.bind;
const call = Function.prototype.call;
/** uncurry(f)(thisArg, ...args) calls f without a lookup. */
export const uncurry = apply(bind, bind, [call]);

export const construct = R.construct;
export const ownKeys = R.ownKeys;
export const gopd = R.getOwnPropertyDescriptor;
export const getProto = R.getPrototypeOf;
export const setProto = R.setPrototypeOf;
export const defineProperty = R.defineProperty;
export const deleteProperty = R.deleteProperty;
export const freeze = Object.freeze;
export const create = Object.create;
export const hasOwn = Object.hasOwn;
export const keysOf = Object.keys;
export const is = Object.is;
export const isArray = Array.isArray;
export const ObjectC = Object;
export const ObjProto = Object.prototype;
export const ArrProto = Array.prototype;
export const FunctionProto = Function.prototype;
export const ProxyC = Proxy;
export const SymbolC = Symbol;

export const JSONparse = JSON.parse;
export const JSONstringify = JSON.stringify;

export const sort = uncurry(Array.prototype.sort);
export const join = uncurry(Array.prototype.join);

export const isWellFormed = uncurry(String.prototype.isWellFormed);
export const toWellFormed = uncurry(String.prototype.toWellFormed);
export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const slice = uncurry(String.prototype.slice);
export const indexOf = uncurry(String.prototype.indexOf);
export const replaceAll = uncurry(String.prototype.replaceAll);
export const toLowerCase = uncurry(String.prototype.toLowerCase);
export const startsWith = uncurry(String.prototype.startsWith);
export const StringC = String;

export const P = Promise;
export const then = uncurry(Promise.prototype.then);
export const reject = apply(bind, Promise.reject, [Promise]);

export const SetC = Set;
export const setHas = uncurry(Set.prototype.has);
export const setAdd = uncurry(Set.prototype.add);
export const setDel = uncurry(Set.prototype.delete);
export const MapC = Map;
export const mapGet = uncurry(Map.prototype.get);
export const mapSet = uncurry(Map.prototype.set);
export const mapHas = uncurry(Map.prototype.has);
export const mapDel = uncurry(Map.prototype.delete);
export const mapSize = uncurry(gopd(Map.prototype, "size").get);
export const WeakMapC = WeakMap;
export const weakGet = uncurry(WeakMap.prototype.get);
export const weakSet = uncurry(WeakMap.prototype.set);
export const weakHas = uncurry(WeakMap.prototype.has);

export const Err = Error;
export const TErr = TypeError;
export const isError = Error.isError;
export const isFin = Number.isFinite;
export const isInt = Number.isInteger;
export const floor = Math.floor;
export const ceil = Math.ceil;
export const encodeURIComponent = globalThis.encodeURIComponent;

const encoder = new TextEncoder();
const encode = encoder.encode;
export const typedLength = uncurry(gopd(getProto(Uint8Array.prototype), "length").get);
/** The UTF-8 form of a string. */
export const utf8 = (text) => apply(encode, encoder, [text]);
/** How many bytes that has. */
export const utf8len = (text) => typedLength(utf8(text));
/** The base64 text of a Uint8Array. */
export const toBase64 = uncurry(Uint8Array.prototype.toBase64);
/** The base64 text of a string of bytes: one character each. Throws for others. */
export const btoa = apply(bind, globalThis.btoa, [globalThis]);
/** A fresh Uint8Array of the bytes that a base64 text stands for. */
export const fromBase64 = apply(bind, Uint8Array.fromBase64, [Uint8Array]);

export const WSP = WebSocketPair;
export const wsSend = uncurry(WebSocket.prototype.send);
export const wsAccept = uncurry(WebSocket.prototype.accept);
export const wsClose = uncurry(WebSocket.prototype.close);
export const addEL = uncurry(EventTarget.prototype.addEventListener);
export const Resp = Response;
export const respText = uncurry(Response.prototype.text);
export const respStatus = uncurry(gopd(Response.prototype, "status").get);
export const Req = Request;
export const reqText = uncurry(Request.prototype.text);
export const URLC = URL;
export const setT = setTimeout;
export const clearT = clearTimeout;

const messageData = gopd(MessageEvent.prototype, "data");
const readMessageData = messageData && hasOwn(messageData, "get") ? uncurry(messageData.get) : undefined;
/** The data of a MessageEvent, never through anything an app could have put in the way. */
export const msgData = (event) => {
  if (readMessageData !== undefined) return readMessageData(event);
  const own = gopd(event, "data");
  if (own === undefined) throw new Err("a message without data");
  if (hasOwn(own, "value")) return own.value;
  if (!hasOwn(own, "get")) throw new Err("a message without data");
  return apply(own.get, event, []);
};

/** A null-prototype data descriptor: what `defineProperty` is given, so that nothing is inherited into it. */
export const dataDesc = (value, enumerable, writable, configurable) => ({
  __proto__: null, value, enumerable, writable, configurable,
});
/** Appends to a host-owned array without a setter on a polluted prototype being asked. */
export const append = (array, value) => defineProperty(array, array.length, dataDesc(value, true, true, true));

const consoleC = console;
const consoleError = console.error;
/** A line for the process's log. */
export const log = (text) => apply(consoleError, consoleC, [text]);
