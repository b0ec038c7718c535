// host/service_binding.js: what `env.NAME` of a service binding is (MW-20): requests go out and responses come back as they
// are, bodies streaming. Runs beside app code (rules of prim.js).
import { Req, apply, freeze, getProto, gopd, uncurry } from "./prim.js";
import { namedError } from "./errors.js";
import { turn } from "./turns.js";

/** The header by which kernels count how deep service calls nest (nesting.js). */
export const DEPTH = "takohost-depth";

const headersOf = uncurry(gopd(Request.prototype, "headers").get);
const deleteFrom = uncurry(Headers.prototype.delete);
const setIn = uncurry(Headers.prototype.set);
const signalOf = uncurry(gopd(Request.prototype, "signal").get);
const isAborted = uncurry(gopd(AbortSignal.prototype, "aborted").get);

let depth = () => 0;

/** Where requests are answered, `read` gives how deep the one lies that the running code belongs to. */
export function countDepthBy(read) {
  depth = read;
}

/** `stub`: of the kernel's Service entrypoint, which throws when it cannot start the call and answers otherwise. */
export function serviceBinding(stub) {
  const nativeFetch = getProto(stub).fetch;
  return freeze({
    __proto__: null,
    fetch: freeze(async (input, init) => {
      const request = new Req(input, init);
      deleteFrom(headersOf(request), "upgrade"); // workerd would open a socket instead of sending the request
      setIn(headersOf(request), DEPTH, "" + (depth() + 1));
      const room = turn();
      try {
        if (room !== undefined) await room;
        return await apply(nativeFetch, stub, [request]);
      } catch (error) {
        if (isAborted(signalOf(request))) throw error;
        throw namedError("backend_unavailable", "the Worker cannot be called now");
      }
    }),
  });
}
