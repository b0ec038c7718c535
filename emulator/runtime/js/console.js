// host/console.js: what app code prints, as lines of the host's log that say whose they are. Each line begins with a tag
// that the host takes for this place alone: an app may learn it, as the engine formats lines with JavaScript beside it, and
// can then speak for nobody but itself. No line has the value of a secret (hidden.js). Runs beside app code (rules of
// prim.js).
import * as p from "./prim.js";
import { describeWhole, ownValue } from "./errors.js";
import { hide, hideValues } from "./hidden.js";
import { framesIn, stackOf } from "./stacks.js";

const LONGEST_TEXT = 8192;
const LONGEST_ERROR = 500;
const LONGEST_FRAMES = 4096;
const TURNS = 8;
const LEVELS = { __proto__: null, debug: "debug", info: "info", log: "log", warn: "warn", error: "error", trace: "debug" };

const consoleC = console;
const print = console.log;
const json = (text) => (typeof text === "string" ? p.JSONstringify(text) : "null");

let tag = "";
let head = "";
let place = "null,null";

/** Take over `console` for the isolate of a Version: call it before app code evaluates. `native` is the raw env. */
export function replaceConsole(native) {
  const told = p.JSONparse(native.LOG);
  tag = told.tag;
  head = " [" + json(told.workerUid) + "," + json(told.versionUid) + ",";
  hideValues(told.secrets);
  const names = p.ownKeys(consoleC);
  for (let i = 0; i < names.length; i++) {
    if (typeof names[i] === "string" && typeof ownValue(consoleC, names[i]) === "function") replace(names[i]);
  }
  p.apply(listen, undefined, ["unhandledrejection", (event) => {
    tellUnlessHandled(valueOf(event, "promise"), "unhandled rejection: " + wholeError(valueOf(event, "reason")));
    p.apply(preventDefault, event, []);
  }]);
  p.apply(listen, undefined, ["error", (event) => {
    tell("error", "uncaught: " + wholeError(thrownIn(event)));
    p.apply(preventDefault, event, []);
  }]);
  p.apply(listen, undefined, ["rejectionhandled", (event) => p.weakSet(handled, valueOf(event, "promise"), true)]);
}

// The engine calls a promise unhandled one turn after its rejection; a handler's `return promise` is looked at later than
// that, and its error is told as the handler's own.
async function tellUnlessHandled(promise, text) {
  for (let turn = 0; turn < TURNS; turn++) await undefined;
  if (!p.weakHas(handled, promise)) tell("error", text);
}

const listen = addEventListener;
const preventDefault = Event.prototype.preventDefault;
const thrownIn = p.uncurry(p.gopd(ErrorEvent.prototype, "error").get);
const handled = new p.WeakMapC();
const valueOf = (event, name) => {
  const own = p.gopd(event, name);
  if (own === undefined) return undefined;
  return p.hasOwn(own, "value") ? own.value : p.apply(own.get, event, []);
};

/** Lines from now on belong to this execution context and begin with its tag. */
export function placeIn(instanceId, contextId, contextTag) {
  tag = contextTag;
  place = json(instanceId) + "," + json(contextId);
}

/** "Name: message" of whatever an app threw; at most 500 characters, of which none belong to a secret cut in two. */
export const errorText = (thrown) => p.slice(hide(describeWhole(thrown)), 0, LONGEST_ERROR);

/** The same with the frames of the app that it came through, a line each: for the log alone. */
export const wholeError = (thrown) => errorText(thrown) + (framesOf(thrown) ?? "");

// Secrets are hidden before the stack is taken apart: a piece of one would not be found any more.
function framesOf(thrown) {
  const stack = stackOf(thrown);
  return stack === undefined ? undefined : framesIn(hide(stack), hide(describeWhole(thrown)), LONGEST_FRAMES);
}

/** A line of the log: `level` is one of console's. */
export function tell(level, text) {
  let shown = hide(text);
  if (shown.length > LONGEST_TEXT) shown = p.slice(shown, 0, LONGEST_TEXT) + "...";
  p.apply(print, consoleC, [tag + head + place + "," + json(level) + "," + json(p.toWellFormed(shown)) + "]"]);
}

function replace(name) {
  const level = LEVELS[name] ?? "log";
  const skips = name === "assert" ? 1 : 0;
  const replaced = (...values) => {
    if (skips === 1 && values[0]) return;
    let text = "";
    for (let i = skips; i < values.length; i++) text += (i === skips ? "" : " ") + shownAs(values[i]);
    tell(level, text);
  };
  p.defineProperty(consoleC, name, p.dataDesc(replaced, true, true, true));
}

function shownAs(value) {
  if (typeof value === "string") return value;
  if (typeof value === "function") return "[function]";
  if (value === null || typeof value !== "object") return p.StringC(value);
  try {
    const frames = framesOf(value);
    if (frames !== undefined || p.isError(value)) return describeWhole(value) + (frames ?? "");
    return p.JSONstringify(value) ?? "undefined";
  } catch {
    return describeWhole(value);
  }
}
