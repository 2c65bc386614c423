"""General policies on instances: whether the rules of a sketch do what they claim in problems of PDDL, and reach the goal.

`instances` makes a problem's states and steps quick, `valuations` computes the features there, `follow` explores what the rules
allow until something is wrong.
"""
