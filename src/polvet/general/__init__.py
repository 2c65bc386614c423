"""General policies on instances: `follow` explores what the rules of a sketch allow in problems of PDDL until something is wrong."""
