"""Whole stories in one file each; every one runs with a tiny budget in the tests."""
