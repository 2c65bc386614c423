"""Attacks on the checker: false claims, built to look right, that it must reject.

worlds            small models whose conditions and updates hang on the last bit of large numbers, or break rules of the model
one file per kind generators of claims; what is false is decided by brute force in the slow interpreter, never by a checker

A few hundred claims of each kind run with the tests; `python -m tests.attack --claims 10000` goes on (also in `make torture`).
"""
