"""What a Worker's environment offers: one package per kind of binding. Knows no process and no isolate."""
