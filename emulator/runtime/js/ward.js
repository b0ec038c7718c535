// What the gateway passes on to the process of a Version set apart, and what that process makes of it: the Version sees the
// request, and the client the answer, of the shared process (MW-14). Knows no weights and no table.
import { versionObject } from "gateway_version.js";
import { nested } from "nesting.js";
import { asksForWebSocket, packed, packedAnswer, unpacked, unpackedAnswer } from "passage.js";

/** The answer of the Version in ward `number`; throws when the ward ends first. `depth` is that of a service call. */
export async function passOn(env, number, versionUid, request, depth) {
  const connections = asksForWebSocket(request) ? "UPGRADES" : "WARD"; // those of which none has served others before
  const ward = env[connections + number];
  return unpackedAnswer(request, await ward.fetch(packed(request, { versionUid, depth })));
}

/** The ward's side. */
export async function receive(env, sent) {
  const { request, told } = unpacked(sent);
  return packedAnswer(request, await versionObject(env, told.versionUid).fetch(nested(request, told.depth)));
}
