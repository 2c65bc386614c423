"""The checkers: each kind of certificate replayed exactly or rounded outward; imports no engine and no kernel."""
