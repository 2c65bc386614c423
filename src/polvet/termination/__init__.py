"""Termination of finite-memory policies: the paper's sieves, a complete test, guards, goals; it reads no files."""
