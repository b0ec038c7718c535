// Requests on their way from kernel to kernel, over sockets that only kernels reach: they arrive as they were sent (MW-14).
// What the kernels say to each other goes along as the `cf` object, which no client and no app can set on these sockets.

const LENGTH = "takohost-length"; // of an answer to HEAD: the length that it told, or nothing

export function asksForWebSocket(request) {
  return request.headers.get("upgrade")?.toLowerCase() === "websocket";
}

/**
 * The request as it is sent; `told` is JSON for the other side. One without a body goes as a POST and is made anew on the
 * other side: the engine sends a GET again when the connection it was sent on breaks and had served before, so that code
 * would run twice, and adds a length to others that had none. It does neither with a POST, or with a body. What asks for a web socket
 * goes as a GET all the same. Headers are told, as the engine takes some of them for its own.
 */
export function packed(request, told) {
  const cf = { ...told, cf: request.cf, headers: [...request.headers] };
  const headers = asksForWebSocket(request) ? request.headers : {};
  if (request.body !== null) return new Request(request, { redirect: "manual", headers, cf });
  const { url, method, signal } = request;
  return new Request(url, { method: "POST", redirect: "manual", headers, signal, cf: { ...cf, method } });
}

/** What came of it: `{request, told}`. */
export function unpacked(sent) {
  const { cf = {}, method, headers, ...told } = sent.cf;
  if (method === undefined) return { request: new Request(sent, { cf, headers }), told };
  const { url, signal } = sent;
  return { request: new Request(url, { method, redirect: "manual", headers, signal, cf }), told };
}

/** The answer as it is sent back: one to HEAD goes as that to a POST, which has a length of its own. */
export function packedAnswer(request, answer) {
  if (request.method !== "HEAD") return answer;
  const sent = new Response(null, answer);
  sent.headers.set(LENGTH, answer.headers.get("content-length") ?? "");
  return sent;
}

/** The answer to `request` that came back. */
export function unpackedAnswer(request, answer) {
  const length = answer.headers.get(LENGTH);
  if (request.method !== "HEAD" || length === null) return answer;
  const told = new Response(null, answer);
  told.headers.delete(LENGTH);
  if (length) told.headers.set("content-length", length);
  else told.headers.delete("content-length");
  return told;
}
