// The kernel of an inspector: answers GET / once it runs, and GET /<code digest> with what host/inspect.js found in an
// isolate without bindings and without a way out. Its process is killed after one answer or at a deadline.
import { codeOf, isolateOf } from "kernel_shared.js";
import INSPECT from "inspect.txt";

const MAIN = { name: "host/inspect.js", modules: { "host/inspect.js": { js: INSPECT } } };
const NO_VERSION = { versionUid: "", vars: {}, bindings: [] };
const NO_EXPORTS = { Outbound: () => null };

// The engine compiles every module of the bundle before it evaluates one, so its word on a syntax error is final.
function failureOf(error) {
  const told = /Uncaught (.*?): (.*)\n\s+at app\/(.*):(\d+):\d+/.exec(error.message);
  if (told === null) return error.message;
  const [, name, message, path, line] = told;
  return path + ":" + line + ": " + (name === "SyntaxError" ? "syntax_error" : name) + ": " + message;
}

export default {
  async fetch(request, env) {
    const path = new URL(request.url).pathname.slice(1);
    if (path === "") return new Response(null, { status: 204 });
    const code = await codeOf(env, path, MAIN);
    const worker = env.LOADER.load(isolateOf(code, NO_VERSION, NO_EXPORTS));
    try {
      return await worker.getEntrypoint().fetch("http://inspect/");
    } catch (error) {
      return Response.json({ failure: failureOf(error) });
    }
  },
};
