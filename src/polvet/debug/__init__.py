"""From runs of a policy to the faults in it, and figures that say how good it is; it changes no policy and proves no safety."""
