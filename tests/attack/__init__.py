"""Attacks on the checker: false claims, built to look right, that it must reject.

worlds            small models whose conditions and updates hang on the last bit of large numbers, or break rules of the model
plans, systems    small plans over counters and transition systems beside 2^53 and 2^63, with a semantics of their own
one file per kind generators of claims; what is false is decided by brute force, in the slow interpreter or here, never by a checker

A few hundred claims of each kind run with the tests; `python -m tests.attack --claims 12000` goes on (also in `make torture`).
"""
