"""Evidence: verdicts, runs, faults and certificates, and checkers that replay them; imports no engine."""
