"""Worlds that are not model files: Gymnasium environments and transition tables, made into a `Model`; nothing here judges a policy."""
