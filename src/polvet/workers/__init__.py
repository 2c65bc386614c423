"""Who does the work: this process, or the processes of a Ray cluster; what a chunk gives depends on the chunk alone."""
