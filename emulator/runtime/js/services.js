// Calls between the kernels of a host, over sockets that only kernels reach (MW-20, MW-21): from a runner or a ward to the
// gateway, for a Worker, and from the gateway to a ward, for a Version. Three headers are the kernels' own: each side sets or
// removes them, whatever app code put there.

const TARGET = "takohost-target"; // the uid of the called Worker or Version
const METHOD = "takohost-method"; // "get": the request is one, though it was sent as a POST
const STARTED = "takohost-started"; // from it: "yes", or "no" for a call that could not be started

/** The same request without what asks for another protocol. */
export function withoutUpgrade(request) {
  if (!request.headers.has("upgrade")) return request;
  const headers = new Headers(request.headers);
  headers.delete("upgrade");
  return new Request(request, { headers });
}

// The engine sends a GET again when the connection it was sent on breaks and had served before: code would run twice. It
// does so with no POST.
function packed(request) {
  const isGet = request.method === "GET";
  const sent = new Request(withoutUpgrade(request), { redirect: "manual", method: isGet ? "POST" : request.method });
  if (isGet) sent.headers.set(METHOD, "get");
  else sent.headers.delete(METHOD);
  return sent;
}

function unpacked(request) {
  if (request.headers.get(METHOD) !== "get") return new Request(request);
  const headers = new Headers(request.headers);
  headers.delete(METHOD);
  headers.delete("content-length");
  return new Request(request.url, { headers, redirect: request.redirect, signal: request.signal });
}

/**
 * The caller's side: the callee's response. Throws when the call could not be started. The socket outlives its gateways,
 * so a connection that breaks had been taken: the callee may have acted, which is a 500.
 */
export async function callThrough(gateway, targetUid, request) {
  if (gateway === undefined) throw new Error("this process has no gateway");
  const sent = packed(request);
  sent.headers.set(TARGET, targetUid);
  let response;
  try {
    response = await gateway.fetch(sent);
  } catch {
    return new Response("Internal Server Error\n", { status: 500 });
  }
  if (response.headers.get(STARTED) !== "yes") throw new Error("the call could not be started");
  const kept = new Response(response.body, response);
  kept.headers.delete(STARTED);
  return kept;
}

/** The other side: `call(targetUid, request)` resolves to a response or throws when it cannot start. */
export async function answerCall(request, call) {
  const targetUid = request.headers.get(TARGET) ?? "";
  const received = unpacked(request);
  received.headers.delete(TARGET);
  let response;
  try {
    response = await call(targetUid, received);
  } catch {
    return new Response(null, { status: 503, headers: { [STARTED]: "no" } });
  }
  const told = new Response(response.body, response);
  told.headers.set(STARTED, "yes");
  return told;
}
