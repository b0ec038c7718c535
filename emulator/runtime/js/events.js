// host/events.js: what `scheduled` and `queue` handlers are given (MW-17 to MW-19). Settlements go to the host, which alone
// knows whether a message is settled. Runs beside app code (rules of prim.js).
import { JSONstringify, P, TErr, append, freeze, fromBase64 } from "./prim.js";
import { delaySeconds } from "./arguments.js";
import { namedError } from "./errors.js";

/** `told`: [scheduledTime, cron]. */
export function scheduledEvent(told) {
  return { scheduledTime: told[0], cron: told[1] };
}

/**
 * The batch of `told`, [delivery, batchId, queue, [[id, timestampMillis, base64, attempts], ...]], as `{batch, close}`.
 * `call(text)`: see bindings.js. `close` ends the batch, and resolves once every settlement under way has its answer.
 */
export function deliveryOf(told, call) {
  const settlements = new Settlements(told[0], call);
  const batch = freeze({
    __proto__: null,
    batchId: told[1],
    queue: told[2],
    messages: messagesOf(told[3]),
    acknowledge: freeze(async (id) => settlements.settle("acknowledge", idOf(id), null)),
    retry: freeze(async (id, delay) => settlements.settle("retry", idOf(id), delaySeconds(delay))),
    acknowledgeAll: freeze(async () => settlements.settle("acknowledgeAll", null, null)),
    retryAll: freeze(async (delay) => settlements.settle("retryAll", null, delaySeconds(delay))),
  });
  return { __proto__: null, batch, close: () => settlements.close() };
}

function messagesOf(told) {
  const messages = [];
  for (let i = 0; i < told.length; i++) {
    const one = told[i];
    append(messages, freeze({ id: one[0], timestampMillis: one[1], body: fromBase64(one[2]), attempts: one[3] }));
  }
  return freeze(messages);
}

function idOf(id) {
  if (typeof id !== "string") throw new TErr("a message id must be a string");
  return id;
}

/** The settlements of one batch; what was under way when the handler ended still counts. */
class Settlements {
  #delivery;
  #call;
  #isOpen = true;
  #underWay = 0;
  #rest;

  constructor(delivery, call) {
    this.#delivery = delivery;
    this.#call = call;
  }

  async settle(verb, id, delay) {
    if (!this.#isOpen) throw namedError("unknown_batch", "the handler of this batch has ended");
    const parts = JSONstringify(id) + "," + (delay === null ? "null" : "" + delay);
    this.#underWay += 1;
    try {
      await this.#call('["' + verb + '",' + JSONstringify(this.#delivery) + "," + parts + "]");
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0 && this.#rest !== undefined) this.#rest();
    }
  }

  close() {
    this.#isOpen = false;
    if (this.#underWay === 0) return undefined;
    return new P((resolve) => {
      this.#rest = resolve;
    });
  }
}
