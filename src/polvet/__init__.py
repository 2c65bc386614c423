"""polvet vets learned action policies: it decides, debugs, repairs, verifies and shields, and every verdict carries evidence."""

__version__ = "0.1.0"
