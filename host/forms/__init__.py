"""The Forms: one module each, with its spec, equality, references, acceptance checks and backend work."""
