"""What is claimed, written out: the flat text of a world and a policy, and (in `checker/`) what judges evidence about it."""
