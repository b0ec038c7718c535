// Calls of `scheduled` and `queue` handlers, for which the host asks on its own socket: the weights in force pick a Version,
// whose isolate runs the handler to its end (WD-03, MW-10, MW-17). Runs in the kernel; knows no socket.
import { common, versionObject } from "gateway_version.js";
import { reasonOf } from "kernel_shared.js";

const refused = (why, versionUid, declared) => JSON.stringify(["refused", why, versionUid ?? null, declared ?? []]);

/**
 * `told`: "<workerUid> <handler> <event as JSON>". No code runs before `picked(versionUid)` resolves, nor when it does so
 * to false. Resolves to JSON text: ["returned"], ["threw", error], ["lost", why] or ["refused", why, versionUid | null, declared]; or
 * ["apart", versionUid] for a Version that is set apart: then nothing runs here, and the host has its ward run it.
 */
export async function callHandler(env, told, picked) {
  const [workerUid, handler] = told.split(" ", 2);
  const route = common.routes?.of(workerUid);
  if (route === undefined) return refused("unknown_worker");
  const version = route.pick(Math.random());
  if (version === undefined) return refused("no_deployment");
  const { versionUid } = version;
  if (version.secrets === null) return refused("secrets_lost", versionUid);
  if (version.withheld) return refused("files_lost", versionUid);
  if (!version.handlers.includes(handler)) return refused("handler_not_declared", versionUid, version.handlers);
  if (version.ward !== null) return JSON.stringify(["apart", versionUid]);
  if (!(await picked(versionUid))) return JSON.stringify(["lost", "the host did not allow it"]);
  return runHandler(env, versionUid + told.slice(workerUid.length));
}

/** The same for a Version that was picked already: `told` is "<versionUid> <handler> <event as JSON>". */
export async function runHandler(env, told) {
  const [versionUid, handler] = told.split(" ", 2);
  try {
    return await versionObject(env, versionUid).call(handler, told.slice(versionUid.length + handler.length + 2));
  } catch (error) {
    return JSON.stringify(["lost", reasonOf(error)]);
  }
}
