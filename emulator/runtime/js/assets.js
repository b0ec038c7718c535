// Static assets of Versions: which file of a manifest a URL stands for, and its bytes, straight from the host's held files
// (WV-10, WV-14, WV-15). No app code runs here and none can reach it. Knows neither routes nor the host's socket.
import { DurableObject } from "cloudflare:workers";
import { common } from "gateway_version.js";
import { plain } from "routes.js";

const INDEX = "index.html";
// As in manifest paths (WB-03): what is no part of a path there is none here.
const IN_NO_SEGMENT = /[/\\\u0000-\u001f\u007f]/;

/** The one path that a URL may match, undefined when it matches none and falls back to none (WV-10). */
export function assetKey(url) {
  const [root, ...segments] = new URL(url).pathname.split("/");
  if (root !== "") return undefined; // a URL without a path to speak of
  if (segments.at(-1) === "") segments[segments.length - 1] = INDEX;
  const decoded = segments.map(decode);
  return decoded.includes(undefined) ? undefined : decoded.join("/");
}

// Once, as UTF-8: an invalid escape or sequence throws.
function decode(segment) {
  let text;
  try {
    text = decodeURIComponent(segment);
  } catch {
    return undefined;
  }
  return text === "" || text === "." || text === ".." || IN_NO_SEGMENT.test(text) ? undefined : text;
}

export function assetsObject(env, versionUid) {
  return env.Assets.get(env.Assets.idFromName(versionUid));
}

/**
 * The answer of a Version with assets; `handle()` is that of its declared `fetch`, or 404. Throws when held bytes are gone.
 * version: of the routing table, with `assets` {"manifest": digest, "runWorkerFirst", "fallsBack"}.
 */
export async function deliverAssets(env, version, request, handle) {
  const { method, url } = request;
  if (method !== "GET" && method !== "HEAD") return handle();
  if (!version.assets.runWorkerFirst) return (await find(env, version, method, url)) ?? handle();
  const answer = await handle();
  if (answer.status !== 404) return answer;
  const found = await find(env, version, method, url);
  if (found !== undefined) answer.body?.cancel().catch(() => {});
  return found ?? answer;
}

async function find(env, version, method, url) {
  const response = await assetsObject(env, version.versionUid).fetch(url, { method });
  return response.status === 404 ? undefined : response;
}

const whole = new Map(); // digest -> the state of its file when all of it was read

// Size and time of change: a file that was changed since is read again.
const stateOf = ({ headers }) => headers.get("content-length") + " " + headers.get("last-modified");

/** The held bytes of a digest and no others (WB-11): a file is read once as a whole before any of it is sent. */
async function read(env, digest, method = "GET", signal = undefined) {
  const response = await open(env, digest, { method, signal });
  const state = stateOf(response);
  if (whole.get(digest) === state) return response;
  response.body?.cancel().catch(() => {});
  const checked = await open(env, digest, { method: "GET", signal });
  const hash = new crypto.DigestStream("SHA-256");
  await checked.body.pipeTo(hash);
  const found = Array.from(new Uint8Array(await hash.digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== digest) throw new LostFile(digest, "damaged");
  whole.set(digest, stateOf(checked));
  return open(env, digest, { method, signal });
}

async function open(env, digest, init) {
  const response = await env.FILES.fetch("http://files/" + digest.slice(0, 2) + "/" + digest, init);
  if (!response.ok) throw new LostFile(digest, "gone");
  return response;
}

class LostFile extends Error {
  constructor(digest, how) {
    super("the held bytes of sha256 " + digest + " are " + how);
    this.digest = digest;
  }
}

/**
 * The assets of one Version: 200 with a file, 404 without. Its object holds every body it still sends, so that nothing of
 * a retired Version goes on (WD-07).
 */
export class Assets extends DurableObject {
  #files; // path -> {sha256, mediaType}, read once
  #sending = new Set();

  async fetch(request) {
    try {
      return await this.#answer(request);
    } catch (error) {
      if (error instanceof LostFile) await this.#tellLost(error.digest);
      throw error;
    }
  }

  // The host looks what it has lost and logs it: until it has, nothing is answered.
  #tellLost(digest) {
    const kernel = this.env.K.get(this.env.K.idFromName("k"));
    return kernel.answer({ kind: "files", versionUid: this.ctx.id.name, binding: "", targetUid: digest }, "");
  }

  async #answer({ method, url }) {
    const file = this.#version === undefined ? undefined : await this.#find(url);
    const sending = new AbortController();
    const opened = file === undefined ? undefined : await read(this.env, file.sha256, method, sending.signal);
    if (this.#version === undefined) return plain(503, "This Version was retired.");
    if (opened === undefined) return new Response(null, { status: 404 });
    const size = opened.headers.get("content-length");
    const told = { headers: { "content-type": file.mediaType, "content-length": size } };
    return new Response(method === "HEAD" ? null : this.#send(opened.body, Number(size), sending), told);
  }

  /** How many files are being sent. */
  running() {
    return this.#sending.size;
  }

  /** Cut what is still being sent, and forget the manifest. */
  stop() {
    for (const sending of this.#sending) sending.abort(new Error("retired by the host"));
    this.#files = undefined;
  }

  // undefined once it was retired, which may be while we wait for a file.
  get #version() {
    return common.versions.get(this.ctx.id.name);
  }

  async #find(url) {
    const key = assetKey(url);
    if (key === undefined) return undefined;
    const { manifest, fallsBack } = this.#version.assets;
    this.#files ??= this.#load(manifest);
    const files = await this.#files;
    return files.get(key) ?? (fallsBack ? files.get(INDEX) : undefined);
  }

  async #load(manifest) {
    try {
      const { files } = await (await read(this.env, manifest)).json();
      return new Map(files.map(({ path, sha256, mediaType }) => [path, { sha256, mediaType }]));
    } catch (error) {
      this.#files = undefined;
      throw error;
    }
  }

  #send(body, size, sending) {
    const { readable, writable } = new FixedLengthStream(size);
    this.#sending.add(sending);
    body
      .pipeTo(writable, { signal: sending.signal })
      .catch(() => {}) // the client went, or the Version was retired: both ends know
      .finally(() => this.#sending.delete(sending));
    return readable;
  }
}
