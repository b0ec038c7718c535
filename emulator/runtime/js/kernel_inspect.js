// The kernel of an inspector: answers GET /<code digest> with what host/inspect.js found in an isolate without bindings
// and without a way out. Its process is killed after one answer or at a deadline.
import { codeOf, isolateOf } from "kernel_shared.js";
import INSPECT from "inspect.txt";

const MAIN = { name: "host/inspect.js", source: INSPECT };
const NO_VERSION = { versionUid: "", vars: {}, bindings: [] };
const NO_EXPORTS = { Outbound: () => null };

export default {
  async fetch(request, env) {
    const code = await codeOf(env, new URL(request.url).pathname.slice(1), MAIN);
    const worker = env.LOADER.load(isolateOf(code, NO_VERSION, NO_EXPORTS));
    return worker.getEntrypoint().fetch("http://inspect/");
  },
};
