"""Pure values of the protocol: ids, JSON, equality, errors, time, state tables. Imports nothing else of ours."""
