"""polvet vets learned action policies: it decides, debugs, repairs, verifies and shields; every verdict has evidence."""

__version__ = "0.1.0"
