// host/history.js: what is recorded of an instance's steps, as far as this context knows it (DW-32, DW-33).
import * as p from "./prim.js";

const MOST_STEPS = 1024;
const KEPT_LENGTH = 4 * 1024 * 1024;

const record = (state, text, kind, attempt, settings) => ({ __proto__: null, state, text, kind, attempt, settings });

/** `pending:<kind>:<attempt>:<settings>` taken apart. */
const pendingRecord = (state) => {
  const kindEnd = p.indexOf(state, ":", 8);
  const attemptEnd = p.indexOf(state, ":", kindEnd + 1);
  const attempt = +p.slice(state, kindEnd + 1, attemptEnd);
  return record("pending", null, p.slice(state, 8, kindEnd), attempt, p.slice(state, attemptEnd + 1));
};

export class History {
  #records = new p.MapC();
  #pending = 0;
  #kept = 0;

  /** `steps` is `[[name, state, text|null], ...]` as the start frame has it. */
  constructor(steps) {
    for (let i = 0; i < steps.length; i++) {
      const state = steps[i][1];
      const isPending = p.startsWith(state, "pending:");
      if (isPending) this.#pending++;
      p.mapSet(this.#records, steps[i][0], isPending ? pendingRecord(state) : record(state, steps[i][2]));
    }
  }

  /** The record of a name, or undefined. */
  of(name) {
    return p.mapGet(this.#records, name);
  }

  get isFull() {
    return p.mapSize(this.#records) >= MOST_STEPS;
  }

  /** Whether a step of an earlier context has not been settled yet. */
  get hasPending() {
    return this.#pending > 0;
  }

  begin(name, kind) {
    if (this.of(name) !== undefined) return;
    this.#pending++;
    p.mapSet(this.#records, name, record("pending", null, kind, 1, ""));
  }

  /** Keep an outcome that the host has made durable; long results are asked for again when needed. */
  complete(name, state, text) {
    this.#pending--;
    const length = text === null ? 0 : text.length;
    const fits = this.#kept + length <= KEPT_LENGTH;
    if (fits) this.#kept += length;
    p.mapSet(this.#records, name, fits ? record(state, text) : record("large", null));
  }
}
