"""What polvet writes down and reads again: states, runs and faults in files, packed states, journals."""
