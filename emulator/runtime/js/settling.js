// host/settling.js: waiting on promises without showing the app a callback or a promise of the host's.
import * as p from "./prim.js";

// `then` asks a promise for its constructor, which the app can put on Promise.prototype; an own undefined one ends that.
const shield = (promise) => p.defineProperty(promise, "constructor", p.dataDesc(undefined, false, false, false));
const ready = new p.P((resolve) => resolve());
shield(ready);

const soon = (work) => {
  p.then(ready, () => {
    work();
  });
};

/**
 * Run `work` after three microtask turns: long enough for a second step of the same turn, or for a `run` that returns in
 * it, to be seen first (DW-31).
 */
export const later = (work) => soon(() => soon(() => soon(work)));

/** Call `ok` or `bad` once `value`, of app code and perhaps a promise, has settled. Neither may throw. */
export const whenSettled = (value, ok, bad) => {
  const kept = (given) => {
    ok(given);
  };
  const broken = (error) => {
    bad(error);
  };
  try {
    p.then(value, kept, broken);
    return;
  } catch {
    // no native promise, or one whose constructor throws: attached to nothing yet
  }
  const wrapped = new p.P((resolve) => resolve(value));
  shield(wrapped);
  p.then(wrapped, kept, broken);
};

/** `whenSettled` of what `call` returns or throws. */
export const settle = (call, ok, bad) => {
  let value;
  try {
    value = call();
  } catch (error) {
    bad(error);
    return;
  }
  whenSettled(value, ok, bad);
};

/** A promise that never settles: what follows an end that app code must not see. */
export const never = () => new p.P(() => {});
