// Calls of `scheduled` and `queue` handlers, for which the host asks on its own socket: the weights in force pick a Version,
// whose isolate runs the handler to its end (WD-03, MW-10, MW-17). Runs in the kernel; knows no socket.
import { common, versionObject } from "gateway_version.js";
import { reasonOf } from "kernel_shared.js";

const refused = (why, versionUid) => JSON.stringify(["refused", why, versionUid ?? null]);

/**
 * `told`: "<workerUid> <handler> <event as JSON>". No code runs before `picked(versionUid)` resolves, nor when it does so
 * to false. Resolves to JSON text: ["returned"], ["threw", error], ["lost", why] or ["refused", why, versionUid | null].
 */
export async function callHandler(env, told, picked) {
  const [workerUid, handler] = told.split(" ", 2);
  const route = common.routes?.of(workerUid);
  if (route === undefined) return refused("unknown_worker");
  const version = route.pick(Math.random());
  if (version === undefined) return refused("no_deployment");
  if (version.secrets === null) return refused("secrets_lost", version.versionUid);
  if (version.withheld) return refused("files_lost", version.versionUid);
  if (!version.handlers.includes(handler)) return refused("handler_not_declared", version.versionUid);
  if (!(await picked(version.versionUid))) return JSON.stringify(["lost", "the host did not allow it"]);
  try {
    return await versionObject(env, version.versionUid).call(handler, told.slice(workerUid.length + handler.length + 2));
  } catch (error) {
    return JSON.stringify(["lost", reasonOf(error)]);
  }
}
