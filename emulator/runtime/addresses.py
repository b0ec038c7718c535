"""The host names under which Workers answer on this machine. Pure; knows no port and no certificate."""

import base64
import hashlib
import re
from functools import lru_cache

WORKERS_DOMAIN = "workers.localhost"
_LONGEST_STEM = 40
_HASH_DIGITS = 8


@lru_cache(maxsize=10_000)  # each table of routes names every Worker
def worker_label(name: str, worker_uid: str) -> str:
    """One DNS label, unique per uid and readable: `order-flow-4q7m2xka`."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_STEM].strip("-") or "worker"
    digest = hashlib.sha256(worker_uid.encode()).digest()
    return f"{stem}-{base64.b32encode(digest)[:_HASH_DIGITS].decode().lower()}"


def worker_hostname(name: str, worker_uid: str) -> str:
    """`<label>.workers.localhost`, under which one wildcard certificate covers every Worker."""
    return f"{worker_label(name, worker_uid)}.{WORKERS_DOMAIN}"
