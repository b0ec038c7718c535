// The compiler's worker: parses and rewrites the modules of one graph, one request each. Its process is killed at a
// deadline, so nothing here guards against code that takes for ever to parse.
//
// POST /graph   JSON [[path, kind], ...]          204
// POST /module  JSON path in "x-path", source     200 rewritten text, or 422 JSON {reason, message, specifier, line}
// POST /wasm    bytes                             204, or 422
import { parseModule } from "meriyah.mjs";
import { Refused, rewriteModule } from "rewrite.js";

let kinds = new Map();

async function readGraph(request) {
  kinds = new Map(await request.json());
  return new Response(null, { status: 204 });
}

async function rewrite(request) {
  const path = JSON.parse(request.headers.get("x-path"));
  const source = new TextDecoder("utf-8", { fatal: true }).decode(await request.arrayBuffer());
  try {
    return new Response(rewriteModule(parseModule, source, path, kinds));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { reason, message, specifier, line } = error;
    return Response.json({ reason, message, specifier, line }, { status: 422 });
  }
}

async function checkWasm(request) {
  if (WebAssembly.validate(await request.arrayBuffer())) return new Response(null, { status: 204 });
  const refusal = { reason: "invalid_wasm", message: "not a WebAssembly module", specifier: null, line: null };
  return Response.json(refusal, { status: 422 });
}

export default {
  async fetch(request) {
    switch (new URL(request.url).pathname) {
      case "/graph":
        return readGraph(request);
      case "/module":
        return rewrite(request);
      case "/wasm":
        return checkWasm(request);
      default:
        return new Response(null, { status: 404 });
    }
  },
};
