// host/run.js: main module of an execution context. Evaluates the app only after all host code, constructs the exported
// class once, calls `run` once and tells how it ended (DW-20 to DW-24, DW-31).
import { envMaker } from "./bindings.js";
import { Channel, json } from "./channel.js";
import { replaceClock } from "./clock.js";
import { placeIn, replaceConsole, tell, wholeError } from "./console.js";
import { canon } from "./doc.js";
import { failedStepOf, messageOf } from "./failures.js";
import { History } from "./history.js";
import * as p from "./prim.js";
import { settle } from "./settling.js";
import { Steps } from "./steps.js";
import { replaceFetch } from "./turns.js";

const eventOf = (instanceId, paramsText) =>
  paramsText === null ? { instanceId } : { instanceId, params: p.JSONparse(paramsText) };

const throwIn = (channel, error) => {
  const step = failedStepOf(error);
  tell("error", "uncaught in run: " + wholeError(error));
  channel.end("threw", [json(messageOf(error)), step === undefined ? "null" : json(step)]);
};

const returnIn = (channel, value) => {
  let text = null;
  try {
    if (value !== undefined) text = canon(value);
  } catch (error) {
    throwIn(channel, new p.TErr("run returned no document: " + messageOf(error)));
    return;
  }
  channel.end("return", [text === null ? "null" : json(text)]);
};

const runIn = (channel, steps, instance, event) => {
  const unless = (end) => (value) => {
    if (steps.close()) steps.mismatch("run settled while a step was not settled");
    else end(channel, value);
  };
  const call = () => {
    const run = instance.run;
    if (typeof run !== "function") throw new p.TErr("run is not a function");
    return p.apply(run, instance, [event, steps.api]);
  };
  settle(call, unless(returnIn), unless(throwIn));
};

/** `start` is `[className, instanceId, params text|null, nowMs|null, steps, contextId, log tag]`. */
const execute = (raw, channel, start) => {
  if (start[3] !== null) replaceClock(start[3]);
  replaceConsole(raw);
  replaceFetch();
  placeIn(start[1], start[5], start[6]);
  const env = envMaker(raw)();
  const steps = new Steps(new History(start[4]), channel);
  const begin = (main) => {
    let instance;
    try {
      instance = p.construct(main.app[start[0]], [env]);
    } catch (error) {
      throwIn(channel, error);
      return;
    }
    runIn(channel, steps, instance, eventOf(start[1], start[2]));
  };
  settle(() => import("./main.js"), begin, (error) => throwIn(channel, error));
};

export class RunDO {
  #raw;

  constructor(state, raw) {
    this.#raw = raw;
  }

  /** The kernel's one request: its end of a socket pair. The first message is the start frame. */
  fetch() {
    const pair = new p.WSP();
    const socket = pair[1];
    p.wsAccept(socket);
    let channel;
    p.addEL(socket, "message", (event) => {
      const message = p.JSONparse(p.msgData(event));
      if (channel !== undefined) {
        channel.receive(message);
        return;
      }
      channel = new Channel(socket);
      execute(this.#raw, channel, message);
    });
    return new p.Resp(null, { __proto__: null, status: 101, webSocket: pair[0] });
  }
}

export default { fetch: () => new p.Resp(null, { __proto__: null, status: 404 }) };
