// host/steps.js: the `step` object of one context. Completed names answer from the history, everything else is a frame to
// the host; one step at a time (DW-30 to DW-38, DW-42).
import { effectOf, nameOf, ofStep, policyText, sleepSeconds, waitOptions } from "./arguments.js";
import { json } from "./channel.js";
import { tell, wholeError } from "./console.js";
import { canon } from "./doc.js";
import { messageOf, stepFailed, waitTimeout } from "./failures.js";
import * as p from "./prim.js";
import { later, never, settle } from "./settling.js";

const parsed = (text) => (text === null ? undefined : p.JSONparse(text));
const textOf = (text) => (text === null ? "null" : json(text));

// After the host was told: a Proxy's traps, and the engine's formatting of a line, may run what the app put in their way.
const tellFailure = (name, attempt, error) => {
  try {
    tell("error", "step " + json(name) + ", attempt " + attempt + ": " + wholeError(error));
  } catch {
    // the app has broken its own log
  }
};

export class Steps {
  #history;
  #channel;
  #open; // name of the one step that is not settled
  #closed = false;

  constructor(history, channel) {
    this.#history = history;
    this.#channel = channel;
  }

  /** What app code gets: exactly three functions, bound to this context. */
  get api() {
    return p.freeze({
      __proto__: null,
      do: p.freeze((name, effect, retryPolicy) => {
        const read = (of) => ({ __proto__: null, effect: effectOf(effect, of), policy: policyText(retryPolicy, of) });
        return this.#call("do", name, read, this.#do);
      }),
      sleep: p.freeze((name, seconds) => this.#call("sleep", name, (of) => sleepSeconds(seconds, of), this.#sleep)),
      waitForEvent: p.freeze((name, options) => this.#call("wait", name, (of) => waitOptions(options, of), this.#wait)),
    });
  }

  /** Whether any step, of this context or of the history, is unsettled; after this no step does anything. */
  close() {
    this.#closed = true;
    return this.#open !== undefined || this.#history.hasPending;
  }

  mismatch(detail) {
    this.#channel.end("mismatch", [json(detail)]);
    return never();
  }

  #call(kind, givenName, read, begin) {
    if (this.#closed || this.#channel.ended) return never();
    let name;
    let settings;
    try {
      name = nameOf(givenName, "a step's name");
      if (this.#open !== undefined) return this.#overlap(name);
      const record = this.#history.of(name);
      if (record !== undefined && record.state !== "pending") return this.#replay(kind, name, record);
      if (record !== undefined && record.kind !== kind) return this.mismatch(name + " was begun as " + record.kind);
      settings = read(ofStep(name));
    } catch (error) {
      return p.reject(error);
    }
    // reading the arguments may have run traps of the app's
    if (this.#closed || this.#channel.ended) return never();
    if (this.#open !== undefined) return this.#overlap(name);
    return this.#begin(kind, name, settings, begin);
  }

  #overlap(name) {
    return this.mismatch(name + " was called while " + this.#open + " was not settled");
  }

  #begin(kind, name, settings, begin) {
    const known = this.#history.of(name);
    if (known === undefined && this.#history.isFull) {
      this.#channel.end("limit", []);
      return never();
    }
    this.#open = name;
    return new p.P((resolve, reject) => {
      const step = { __proto__: null, name, settings, resolve, reject, known };
      later(() => {
        if (this.#closed || this.#channel.ended) return;
        this.#history.begin(name, kind);
        p.apply(begin, this, [step]);
      });
    });
  }

  #replay(kind, name, record) {
    this.#open = name;
    return new p.P((resolve, reject) => {
      const done = (outcome, text) => {
        this.#open = undefined;
        if (outcome === "failed") reject(stepFailed(name, text));
        else if (outcome === "timeout") reject(waitTimeout(name, text ?? "no event in time"));
        else resolve(kind === "sleep" ? undefined : parsed(text));
      };
      later(() => {
        if (this.#closed || this.#channel.ended) return;
        if (record.state === "large") this.#channel.ask("need", [json(name)], done);
        else done(record.state, record.text);
      });
    });
  }

  #do(step) {
    const attempt = step.known === undefined ? 1 : step.known.attempt;
    const policy = step.known === undefined ? step.settings.policy : null;
    const parts = [json(step.name), "" + attempt, textOf(policy)];
    const go = () => this.#effect(step, attempt);
    if (policy !== null) {
      this.#channel.ask("begin", parts, go);
      return;
    }
    this.#channel.say("begin", ["0", parts[0], parts[1], parts[2]]);
    go();
  }

  #effect(step, attempt) {
    const fail = (error) => {
      this.#tell(step, "failed", attempt, json(messageOf(error)));
      tellFailure(step.name, attempt, error);
    };
    const succeed = (value) => {
      let text = null;
      try {
        if (value !== undefined) text = canon(value);
      } catch (error) {
        fail(error);
        return;
      }
      this.#tell(step, "done", attempt, textOf(text), text);
    };
    settle(() => p.apply(step.settings.effect, undefined, []), succeed, fail);
  }

  #tell(step, verb, attempt, part, text) {
    this.#channel.ask(verb, [json(step.name), "" + attempt, part], (outcome, given) => {
      if (outcome === "failed") this.#fail(step, "failed", stepFailed(step.name, given), given);
      else this.#succeed(step, text);
    });
  }

  #sleep(step) {
    this.#channel.ask("sleep", [json(step.name), "" + step.settings], () => this.#succeed(step, null));
  }

  #wait(step) {
    const { type, timeoutSeconds } = step.settings;
    this.#channel.ask("wait", [json(step.name), json(type), "" + timeoutSeconds], (outcome, text) => {
      if (outcome === "timeout") this.#fail(step, "timeout", waitTimeout(step.name, text ?? "no event in time"), text);
      else this.#succeed(step, text);
    });
  }

  #succeed(step, text) {
    this.#open = undefined;
    this.#history.complete(step.name, "succeeded", text);
    step.resolve(parsed(text));
  }

  #fail(step, state, error, message) {
    this.#open = undefined;
    this.#history.complete(step.name, state, message);
    step.reject(error);
  }
}
