"""The reference checker of evidence: standard library alone; this folder can be copied out and read in an evening."""
