"""polvet vets learned action policies: it decides, debugs, repairs, verifies and shields, always with evidence."""

__version__ = "0.2.0"
