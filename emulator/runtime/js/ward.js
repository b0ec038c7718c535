// What the gateway passes on to the process of a Version set apart, and what that process makes of it: the Version sees the
// request, and the client the answer, of the shared process (MW-14). Knows no weights and no table.
import { versionObject } from "gateway_version.js";
import { nested } from "nesting.js";
import { asksForWebSocket, packed, unpacked } from "passage.js";

const LENGTH = "takohost-length"; // from a ward: the length that an answer to HEAD told, or nothing

/** The answer of the Version in ward `number`; throws when the ward ends first. `depth` is that of a service call. */
export async function passOn(env, number, versionUid, request, depth) {
  const connections = asksForWebSocket(request) ? "UPGRADES" : "WARD"; // those of which none has served others before
  const ward = env[connections + number];
  const answer = await ward.fetch(packed(request, { versionUid, depth }));
  return request.method === "HEAD" ? withLength(answer, answer.headers.get(LENGTH)) : answer;
}

/** The ward's side. */
export async function receive(env, sent) {
  const { request, told } = unpacked(sent);
  const answer = await versionObject(env, told.versionUid).fetch(nested(request, told.depth));
  if (request.method !== "HEAD") return answer;
  const marked = new Response(null, answer); // it went as a POST, whose answer has a length of its own
  marked.headers.set(LENGTH, answer.headers.get("content-length") ?? "");
  return marked;
}

function withLength(answer, length) {
  const told = new Response(null, answer);
  told.headers.delete(LENGTH);
  if (length) told.headers.set("content-length", length);
  else told.headers.delete("content-length");
  return told;
}
