"""The debugging loop: fuzz, find faults, repair, verify, until the policy is safe; every step on disk, resumed after a kill."""
