// host/channel.js: the isolate's end of the socket to the kernel. Frames are written by hand: JSON.stringify of an array
// would ask the app's prototypes for a toJSON.
import { setNow } from "./clock.js";
import * as p from "./prim.js";

/** A string, number or null as JSON. */
export const json = (value) => p.JSONstringify(value);

/** The frame `["verb", part, ...]`; every further part is JSON text already. */
const frame = (verb, parts) => {
  let text = '["' + verb + '"';
  for (let i = 0; i < parts.length; i++) text += "," + parts[i];
  return text + "]";
};

export class Channel {
  #socket;
  #asked = new p.MapC();
  #last = 0;
  #ended = false;

  constructor(socket) {
    this.#socket = socket;
  }

  /** True once the run's end was told: from then on nothing is sent and nothing resolves. */
  get ended() {
    return this.#ended;
  }

  say(verb, parts) {
    if (!this.#ended) p.wsSend(this.#socket, frame(verb, parts));
  }

  /** Send `[verb, id, ...parts]`; `settle(outcome, text)` is called with the host's reply, if one ever comes. */
  ask(verb, parts, settle) {
    const id = ++this.#last;
    p.mapSet(this.#asked, id, settle);
    const numbered = ["" + id];
    for (let i = 0; i < parts.length; i++) p.append(numbered, parts[i]);
    this.say(verb, numbered);
  }

  /** Tell how the run ended. Only the first end counts. */
  end(verb, parts) {
    this.say(verb, parts);
    this.#ended = true;
  }

  /** `["reply", id, outcome, text|null, nowMs|null]`. */
  receive(reply) {
    if (this.#ended) return;
    if (reply[4] !== null) setNow(reply[4]);
    const settle = p.mapGet(this.#asked, reply[1]);
    p.mapDel(this.#asked, reply[1]);
    if (settle !== undefined) settle(reply[2], reply[3]);
  }
}
