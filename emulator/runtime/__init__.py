"""Drives workerd: processes, channels, the runner pool and the code that runs inside isolates."""
