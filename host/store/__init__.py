"""The control database: its schema and every statement on it. Decides nothing."""
