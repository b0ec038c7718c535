// host/workflow_binding.js: what `env.NAME` of a Workflow binding is (DW-10 to DW-18): arguments checked, documents made
// canonical, calls sent as text. Knows no stub. Runs beside app code (rules of prim.js).
import { JSONparse, JSONstringify, TErr, freeze } from "./prim.js";
import { closed, nameOf } from "./arguments.js";
import { canon, faultKind } from "./doc.js";
import { namedError } from "./errors.js";

const CREATE = { __proto__: null, id: true, params: true };
const EVENT = { __proto__: null, type: true, payload: true };

/** call(text): see bindings.js. */
export function workflowBinding(call) {
  return freeze({
    __proto__: null,
    create: freeze(async (input) => {
      const given = closed(input, CREATE, "the argument");
      const id = given.id === undefined ? null : nameOf(given.id, "id");
      const params = given.params === undefined ? null : documentText(given.params, "invalid_params");
      const reply = await call(bodyOf("create", id, params));
      return instanceOf(call, reply[1]);
    }),
    get: freeze(async (id) => {
      const reply = await call(bodyOf("get", nameOf(id, "id")));
      return instanceOf(call, reply[1]);
    }),
  });
}

function instanceOf(call, id) {
  return freeze({
    __proto__: null,
    id,
    status: freeze(async () => statusOf(await call(bodyOf("status", id)))),
    sendEvent: freeze(async (input) => {
      const given = closed(input, EVENT, "the argument");
      const type = nameOf(given.type, "type");
      const payload = given.payload === undefined ? null : documentText(given.payload, "TypeError");
      await call(bodyOf("sendEvent", id, type, payload));
    }),
    terminate: freeze(async () => {
      await call(bodyOf("terminate", id));
    }),
  });
}

// reply: ["ok", status, output text | null, reason | null, message | null]
function statusOf(reply) {
  const status = { status: reply[1] };
  if (reply[2] !== null) return { status: reply[1], output: JSONparse(reply[2]) };
  if (reply[3] === null) return status;
  const error = reply[4] === null ? { reason: reply[3] } : { reason: reply[3], message: reply[4] };
  return { status: reply[1], error };
}

/** The canonical text of a document; `fault` names every failure but an excess of size (DW-14, DW-15). */
function documentText(value, fault) {
  try {
    return canon(value);
  } catch (error) {
    const message = faultKind(error) === undefined ? "the document could not be read" : error.message;
    if (faultKind(error) === "too_large") throw namedError("document_too_large", message);
    throw fault === "TypeError" ? new TErr(message) : namedError(fault, message);
  }
}

/** A JSON array of strings and nulls. */
function bodyOf(...parts) {
  let text = "";
  for (let i = 0; i < parts.length; i++) text += (i === 0 ? "" : ",") + JSONstringify(parts[i]);
  return "[" + text + "]";
}
