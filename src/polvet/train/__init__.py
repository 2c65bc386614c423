"""Policies to try things with: tree ensembles by imitation, networks by deep Q-learning; it judges none of them."""
