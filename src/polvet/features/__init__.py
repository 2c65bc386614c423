"""Features of PDDL states: concepts, roles, counts and distances in description logic; knows no policy and searches nothing.

`terms` reads `n_count(c_and(...))` and checks it against a domain's words, `structure` is what a state offers to be counted
(objects, relations, the goal's relations), `denote` evaluates a term there.
"""
