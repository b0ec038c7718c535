"""The machine beneath the protocol: workerd processes, the SQLite stores, the edges. May import `host`."""

__version__ = "0.1.0"
