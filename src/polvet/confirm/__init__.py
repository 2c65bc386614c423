"""Speak only what was checked: what stands between an engine's certificate and a verdict that is said; it checks nothing itself."""
