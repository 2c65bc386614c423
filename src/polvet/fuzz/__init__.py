"""Run a policy until something breaks: start states, runs that lean towards `fail`, shrinking. Proves nothing safe."""
