"""Accepts, carries out, reads and replays. Knows no HTTP status and no runtime."""
