"""May this policy be shipped? Checks with thresholds for continuous integration; it measures and judges, it repairs nothing."""
