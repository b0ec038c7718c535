"""The exact URLs of the Forms that this host knows by name, built or not (WV-11)."""

_ROOT = "https://edge.forms.takoform.com/forms"

ACTOR_NAMESPACE = f"{_ROOT}/ActorNamespace/0.3.0/"
AT_LEAST_ONCE_QUEUE = f"{_ROOT}/AtLeastOnceQueue/0.2.0/"
DURABLE_WORKFLOW = f"{_ROOT}/DurableWorkflow/0.3.0/"
EDGE_KV_NAMESPACE = f"{_ROOT}/EdgeKVNamespace/0.2.0/"
MODULE_WORKER = f"{_ROOT}/ModuleWorker/0.3.0/"
OBJECT_BUCKET = f"{_ROOT}/ObjectBucket/0.2.0/"
SQLITE_DATABASE = f"{_ROOT}/SQLiteDatabase/0.2.0/"
STATIC_ASSET_BUNDLE = f"{_ROOT}/StaticAssetBundle/0.2.0/"
WORKER_BUNDLE = f"{_ROOT}/WorkerBundle/0.2.0/"
WORKER_DEPLOYMENT = f"{_ROOT}/WorkerDeployment/0.4.0/"
WORKER_ENDPOINT = f"{_ROOT}/WorkerEndpoint/0.3.0/"
WORKER_VERSION = f"{_ROOT}/WorkerVersion/0.5.0/"


def form_name(url: str) -> str:
    """`WorkerVersion` of `https://host/forms/WorkerVersion/0.5.0/`."""
    return url.rstrip("/").split("/")[-2]
