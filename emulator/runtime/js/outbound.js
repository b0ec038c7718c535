// The policed way out: every fetch of app code, each redirect hop as a request of its own, passes here (MW-16).
//
// env.POLICY is {mode: "public"|"local"|"none", allow: ["host"|"host:port", ...], ownPorts: [n, ...], ownAddresses: [...]}.
// Names only ever go through `PUBLIC`, whose resolver results must be public addresses, so DNS leads nowhere private;
// `ANY` serves literal addresses and localhost alone. The host's own ports are refused whatever the policy says.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Reach, reachOf } from "addresses.js";

const DEFAULT_PORTS = { "http:": "80", "https:": "443" };

function portOf(url) {
  return url.port === "" ? DEFAULT_PORTS[url.protocol] : url.port;
}

function isListed(allow, host, port) {
  return allow.includes(host) || allow.includes(host + ":" + port);
}

/** Why a request to `url` is refused, or `{service}`: the binding that may carry it. */
export function judge(url, policy) {
  if (!(url.protocol in DEFAULT_PORTS)) return { rule: "only http and https can be fetched" };
  const host = url.hostname.replace(/\.$/, "");
  const port = portOf(url);
  const reach = reachOf(host);
  const listed = isListed(policy.allow, host, port);
  const service = reach === Reach.PUBLIC || reach === Reach.NAME ? "PUBLIC" : "ANY";
  const isOwn = reach === Reach.LOCAL || policy.ownAddresses.includes(host) || (service === "ANY" && !listed);
  if (isOwn && policy.ownPorts.includes(Number(port))) return { rule: "the host's own listeners are never reachable" };
  if (listed) return { service };
  if (policy.mode === "none") return { rule: "outbound fetch is switched off" };
  if (service === "PUBLIC") return { service };
  if (policy.mode === "local" && reach !== Reach.SPECIAL) return { service };
  return { rule: "only public addresses are reachable; `--allow-outbound` can widen this" };
}

export class Outbound extends WorkerEntrypoint {
  async fetch(request) {
    const url = new URL(request.url);
    const verdict = judge(url, this.env.POLICY);
    const where = url.hostname + ":" + portOf(url);
    if (verdict.rule !== undefined) throw new TypeError("fetch of " + where + " was refused: " + verdict.rule);
    try {
      return await this.env[verdict.service].fetch(request);
    } catch (error) {
      throw new TypeError("fetch of " + where + " failed: " + error.message);
    }
  }
}
