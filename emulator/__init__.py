"""Makes the Takoform protocol of `host` run on one machine, with workerd processes and SQLite."""
