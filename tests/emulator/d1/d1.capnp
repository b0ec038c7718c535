# workerd's own D1 behind a Worker that runs what the tests send: the wrapped binding `cloudflare-internal:d1-api`
# over the bundled D1 service, a Durable Object with SQLite on disk.
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "door", worker = (
      modules = [(name = "door.js", esModule = embed "door.js")],
      compatibilityDate = "2026-01-01",
      bindings = [
        (name = "DB", wrapped = (moduleName = "cloudflare-internal:d1-api", innerBindings = [
          (name = "fetcher", service = (name = "d1", props = (json = "{\"database\":\"tests\"}")))])),
      ],
    )),
    (name = "d1", worker = (
      modules = [(name = "d1.js", bundled = "/workerd/d1.js")],
      compatibilityDate = "2026-01-01",
      durableObjectNamespaces = [(className = "D1Database", uniqueKey = "D1Database", enableSql = true)],
      durableObjectStorage = (localDisk = "files"),
      bindings = [(name = "DATABASE", durableObjectNamespace = "D1Database")],
    )),
    (name = "files", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "door")],
);
