"""Change a policy where it is at fault, with a guarantee: every listed fault is fixed, or named as left. It finds no faults."""
