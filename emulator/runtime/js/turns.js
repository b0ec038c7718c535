// host/turns.js: lets the event loop turn between the calls that app code makes at once. Thousands in one turn would keep
// the process busy with nothing else for seconds, which is what its watchdog takes for a loop. Runs beside app code (rules
// of prim.js).
import { P, Req, apply, dataDesc, defineProperty, setT } from "./prim.js";

const CALLS_PER_TURN = 64;
let left = CALLS_PER_TURN;
let first;
let last;

/** Take part in this turn of the event loop: undefined, or a promise of a later turn in which there is room. */
export function turn() {
  if (left === 0) {
    return new P((resolve) => {
      const waiting = { __proto__: null, resolve, next: undefined };
      if (first === undefined) first = waiting;
      else last.next = waiting;
      last = waiting;
    });
  }
  take();
  return undefined;
}

function take() {
  left -= 1;
  if (left === 0) setT(begin, 0);
}

function begin() {
  left = CALLS_PER_TURN;
  while (first !== undefined && left > 0) {
    const waiting = first;
    first = waiting.next;
    take();
    waiting.resolve();
  }
}

/** Replace the global `fetch` by one that takes turns; call it before app code evaluates. */
export function replaceFetch() {
  const native = fetch;
  const later = async (request, room) => {
    await room;
    return apply(native, undefined, [request]);
  };
  const replaced = {
    fetch(input, init) {
      const room = turn();
      if (room === undefined) return apply(native, undefined, arguments);
      try {
        return later(new Req(input, init), room);
      } catch (error) {
        return new P((_, refuse) => refuse(error));
      }
    },
  }.fetch;
  defineProperty(replaced, "length", dataDesc(native.length, false, false, true));
  defineProperty(globalThis, "fetch", dataDesc(replaced, true, true, true));
}
