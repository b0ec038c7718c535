// Where requests go, as the host's table says: hostname -> Worker -> Version by weight (WD-01, WD-03). A table is replaced
// whole, so a request sees one or the other. Loads no code.

const ORIGINS_KEPT = 1000;

/** One Worker of the table. */
class Route {
  #versions;
  #total;

  constructor({ workerUid, name, versions }) {
    this.workerUid = workerUid;
    this.name = name;
    this.#versions = versions;
    this.#total = versions.reduce((sum, { weight }) => sum + weight, 0);
  }

  get isServed() {
    return this.#total > 0;
  }

  /** The Version for `chance` in [0, 1), undefined without a deployment. */
  pick(chance) {
    let left = chance * this.#total;
    return this.#versions.find(({ weight }) => (left -= weight) < 0);
  }
}

/**
 * table: {"fallback": hostname | null, "workers": [{"workerUid", "name", "hostnames": [...], "versions":
 * [{"weight", "versionUid", "code", "handlers", "vars", "secrets", "bindings", "assets"}]}]}; `secrets` null: they are lost.
 * `withheld`: held bytes that the Version is made of are lost.
 * `code` null: there is none. `assets`: null, or {"manifest": digest, "runWorkerFirst", "fallsBack"}.
 * `fallback` answers at localhost and addresses.
 */
export class Routes {
  #byHostname = new Map();
  #byUid = new Map();
  #byOrigin = new Map();
  #fallback;

  constructor(table) {
    for (const worker of table.workers) {
      const route = new Route(worker);
      this.#byUid.set(worker.workerUid, route);
      for (const hostname of worker.hostnames) this.#byHostname.set(hostname, route);
    }
    this.#fallback = this.#byHostname.get(table.fallback);
  }

  /**
   * The Worker that answers at this absolute URL; one with a Host that is none is no URL. What an origin led to is
   * remembered: to take a URL apart costs more.
   */
  ofUrl(url) {
    const origin = url.slice(0, url.indexOf("/", url.indexOf("//") + 2));
    let route = this.#byOrigin.get(origin);
    if (route === undefined) {
      route = this.#at(URL.parse(url)?.hostname ?? "");
      if (route !== undefined && this.#byOrigin.size < ORIGINS_KEPT) this.#byOrigin.set(origin, route);
    }
    return route;
  }

  #at(hostname) {
    return this.#byHostname.get(hostname) ?? (isNobodysName(hostname) ? this.#fallback : undefined);
  }

  /** The Worker whose name this is, without the fallback. */
  named(hostname) {
    return this.#byHostname.get(hostname);
  }

  /** The Worker of this uid. */
  of(workerUid) {
    return this.#byUid.get(workerUid);
  }

  get hostnames() {
    return [...this.#byHostname].map(([hostname, { name, isServed }]) => ({ hostname, name, isServed }));
  }
}

function isNobodysName(hostname) {
  return hostname === "localhost" || hostname.startsWith("[") || /^\d+\.\d+\.\d+\.\d+$/.test(hostname);
}

/** A host-made answer. */
export function plain(status, text) {
  return new Response(text + "\n", { status, headers: { "content-type": "text/plain;charset=utf-8" } });
}

/** 404 with the names that would have answered, or would with a Deployment; 400 when the URL, and so the client's Host, is none. */
export function missing(text, routes) {
  const url = URL.parse(text);
  if (url === null) return plain(400, "The Host of the request is none.");
  const port = url.port === "" ? "" : ":" + url.port;
  const lines = routes.hostnames.map(
    ({ hostname, name, isServed }) =>
      "  " + name + "  " + url.protocol + "//" + hostname + port + "/" + (isServed ? "" : "  (no Deployment)"),
  );
  const known = lines.length === 0 ? ["No Worker is deployed here."] : ["Workers on this host:", ...lines.sort()];
  return plain(404, ["No Worker answers at " + url.hostname + ".", "", ...known].join("\n"));
}
