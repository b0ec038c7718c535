"""The fenced run store: one row per run, its snapshot as JSON text, every change a compare-and-set (RS)."""
