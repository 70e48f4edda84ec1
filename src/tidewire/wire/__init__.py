"""Bytes ⇄ messages, pure. The format is described in ``docs/reference/wire.md``."""
