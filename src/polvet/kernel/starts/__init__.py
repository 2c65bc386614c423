"""The start states of a task: their one home. Whoever wants some, all, their number, or to know whether a state is one, comes here.

`starts.py`  `Starts` counts, lists, numbers and draws them; `drawable_starts` also where they are too many to count
`parts.py`   how the start condition falls apart, by its shape alone
`ranked.py`  states numbered by a decision diagram
Elsewhere, and why: `check/all_starts.py` lists them for the checkers, which share no code with this; `fuzz/population.py` breeds those
that come near `fail`; `debug/evaluate.py` keeps the ones to debug on apart from the ones to evaluate on.
"""

from polvet.kernel.starts.starts import Starts, draw_ranks, drawable_starts, is_start_of, sample_starts

__all__ = ["Starts", "draw_ranks", "drawable_starts", "is_start_of", "sample_starts"]
