// host/service_binding.js: what `env.NAME` of a service binding is (MW-20): requests go out and responses come back as they
// are, bodies streaming. Runs beside app code (rules of prim.js).
import { Req, apply, freeze, getProto, gopd, uncurry } from "./prim.js";
import { namedError } from "./errors.js";

const headersOf = uncurry(gopd(Request.prototype, "headers").get);
const deleteFrom = uncurry(Headers.prototype.delete);
const signalOf = uncurry(gopd(Request.prototype, "signal").get);
const isAborted = uncurry(gopd(AbortSignal.prototype, "aborted").get);

/** `stub`: of the kernel's Service entrypoint, which throws when it cannot start the call and answers otherwise. */
export function serviceBinding(stub) {
  const nativeFetch = getProto(stub).fetch;
  return freeze({
    __proto__: null,
    fetch: freeze(async (input, init) => {
      const request = new Req(input, init);
      deleteFrom(headersOf(request), "upgrade"); // workerd would open a socket instead of sending the request
      try {
        return await apply(nativeFetch, stub, [request]);
      } catch (error) {
        if (isAborted(signalOf(request))) throw error;
        throw namedError("backend_unavailable", "the Worker cannot be called now");
      }
    }),
  });
}
