// Service calls between the kernels of a host, from a runner or a ward to the gateway (MW-20, MW-21). One header of the
// response is the kernels' own: each side sets or removes it, whatever app code put there.
import { packed, packedAnswer, unpacked, unpackedAnswer } from "passage.js";

const STARTED = "takohost-started"; // from it: "yes", or "no" for a call that could not be started

/** The same request without what asks for another protocol. */
export function withoutUpgrade(request) {
  if (!request.headers.has("upgrade")) return request;
  const headers = new Headers(request.headers);
  headers.delete("upgrade");
  return new Request(request, { headers });
}

/**
 * The caller's side: the callee's response. Throws when the call could not be started. The socket outlives its gateways,
 * so a connection that breaks had been taken: the callee may have acted, which is a 500.
 */
export async function callThrough(gateway, targetUid, request) {
  if (gateway === undefined) throw new Error("this process has no gateway");
  const sent = packed(withoutUpgrade(request), { targetUid });
  let response;
  try {
    response = await gateway.fetch(sent);
  } catch {
    return new Response("Internal Server Error\n", { status: 500 });
  }
  if (response.headers.get(STARTED) !== "yes") throw new Error("the call could not be started");
  const kept = new Response(response.body, response);
  kept.headers.delete(STARTED);
  return unpackedAnswer(request, kept);
}

/** The other side: `call(targetUid, request)` resolves to a response or throws when it cannot start. */
export async function answerCall(sent, call) {
  const { request, told } = unpacked(sent);
  let response;
  try {
    response = packedAnswer(request, await call(told.targetUid, request));
  } catch {
    return new Response(null, { status: 503, headers: { [STARTED]: "no" } });
  }
  const marked = new Response(response.body, response);
  marked.headers.set(STARTED, "yes");
  return marked;
}
