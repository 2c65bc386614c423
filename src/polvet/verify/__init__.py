"""Prove a policy safe from all start states, or show the run that is not; it neither fuzzes for its own sake nor repairs."""
