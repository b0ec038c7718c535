"""The composition root: the only place that wires parts, starts them and stops them in order."""
