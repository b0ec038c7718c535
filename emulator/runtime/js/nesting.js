// How deep service calls nest: a Worker that calls itself, or a ring of them, comes to an end (MW-20). Isolates count by a
// header of the kernels' own, that no client and no app can forge: what an isolate is told begins with a key of this
// process. Knows no Version.

const DEPTH = "takohost-depth";
const DEEPEST = 32;
let key;

/** What the header begins with on its way into an isolate; made when first asked for, as modules have no randomness. */
export function depthKey() {
  return (key ??= crypto.randomUUID() + "/");
}

/** How deep a service call from an isolate lies. Throws when that is one call too deep. */
export function depthOf(request) {
  const depth = Number(request.headers.get(DEPTH) ?? 1);
  if (!(depth <= DEEPEST)) throw new Error("service calls nest at most " + DEEPEST + " deep");
  return depth;
}

/** The request as an isolate of this process gets it. */
export function nested(request, depth) {
  if (depth === 0) return request;
  const copy = new Request(request);
  copy.headers.set(DEPTH, depthKey() + depth);
  return copy;
}

