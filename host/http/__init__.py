"""The Host API over HTTP: decode, ask the engine, encode. The status table lives here alone."""
