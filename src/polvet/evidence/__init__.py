"""What an engine hands to the world: the flat text of a task and a policy, and evidence about it."""
