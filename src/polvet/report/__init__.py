"""Pages for people: one self-contained HTML file of a debugging campaign, a certificate or a shield. It computes no verdicts."""

from polvet.report.make import make_report

__all__ = ["make_report"]
