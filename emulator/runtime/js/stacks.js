// host/stacks.js: where an error came from, as frames of the app. Reads the engine's own record, so that no getter, Proxy or
// `Error.prepareStackTrace` of the app's is run. Knows no secret; runs beside app code (rules of prim.js).
import {
  Err, construct, dataDesc, defineProperty, deleteProperty, getProto, gopd, indexOf, setProto, slice, startsWith, uncurry,
} from "./prim.js";
import { describeWhole } from "./errors.js";

const PREPARE = "prepareStackTrace";
const FRAME = "\n    at ";
const MOST_SITES = 64;

// The engine's accessor: own in every error, and blind to anything that is none, a Proxy of one too.
const recordIn = uncurry(gopd(new Err(), "stack").get);
const shownSite = captureSite();

function captureSite() {
  let prototype;
  const prepare = (_, sites) => {
    prototype = getProto(sites[0]);
  };
  preparing(prepare, () => recordIn(construct(Err, ["a frame"])));
  return uncurry(gopd(prototype, "toString").value);
}

/** Run `read` while the engine formats stacks by `prepare`; undefined, and nothing is run, when the app has ruled that out. */
function preparing(prepare, read) {
  const earlier = gopd(Err, PREPARE);
  const given = earlier === undefined ? dataDesc(prepare, false, true, true) : { __proto__: null, value: prepare };
  if (!defineProperty(Err, PREPARE, given)) return undefined;
  try {
    return read();
  } finally {
    if (earlier === undefined) {
      deleteProperty(Err, PREPARE);
    } else {
      setProto(earlier, null); // nothing is inherited into it
      defineProperty(Err, PREPARE, earlier);
    }
  }
}

// What the engine would make of an error that nobody has asked for its stack, but without a getter for the first line.
function formatted(head, sites) {
  let text = head;
  for (let i = 0; i < sites.length && i < MOST_SITES; i++) text += FRAME + shownSite(sites[i]);
  return text;
}

/** The `stack` of an error as text, or undefined for anything that has none; it may hold what the app put there. */
export function stackOf(thrown) {
  try {
    const head = describeWhole(thrown); // before: it may run a trap, which must not meet a function of the host's
    const stack = preparing((_, sites) => formatted(head, sites), () => recordIn(thrown));
    return typeof stack === "string" ? stack : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The frames in a text of `stackOf`, whose error is described by `head`, without those of the host and with the paths of the
 * bundle: "\n    at f (main.js:2:7)" each, whole ones up to `longest` characters.
 */
export function framesIn(stack, head, longest) {
  let frames = "";
  let at = indexOf(stack, FRAME, startsWith(stack, head) ? head.length : 0);
  while (at >= 0) {
    const end = indexOf(stack, "\n", at + 1);
    const frame = ofApp(end < 0 ? slice(stack, at) : slice(stack, at, end));
    if (frames.length + frame.length > longest) break;
    frames += frame;
    at = end < 0 || !startsWith(slice(stack, end, end + FRAME.length), FRAME) ? -1 : end;
  }
  return frames;
}

const OPENINGS = ["(", FRAME, FRAME + "async "];

/** The frame as its author would name it, or nothing when it is the host's. */
function ofApp(frame) {
  for (let i = 0; i < OPENINGS.length; i++) {
    const opening = OPENINGS[i];
    if (indexOf(frame, opening + "host/") >= 0) return "";
    const at = indexOf(frame, opening + "app/");
    if (at >= 0) return slice(frame, 0, at + opening.length) + slice(frame, at + opening.length + "app/".length);
  }
  return frame;
}
