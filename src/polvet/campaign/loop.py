"""The debugging loop of a policy: (A) fuzz, (B) find faults, (C) repair, (D) verify, until nothing more is found.

Source   Cascioli, Jain, Steinmetz, Davis, Hoffmann, Safety Debugging of Tree-Ensemble Action Policies in AI Planning,
         section 4 and Fig. 1: `debug` is the loop, faults accumulate, so that every policy fixes all faults so far
Differs  where fuzzing finds no new fault, the policy's runs from all debugging starts are searched exhaustively before
         verification; repairs aim at safe actions that lead on to the goal, and keep the old action on a sample of
         states of goal-reaching runs (`goals.py`); networks, tables and rules are repaired as well; every step is stored
         and the loop resumed (`store.py`)
Cost     each iteration fixes at least one new fault, so that on finite models the loop ends
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from polvet.campaign.settings import Settings
from polvet.campaign.store import Record, Store
from polvet.errors import LimitReached
from polvet.evidence.fault_files import Fault, FaultList, read_faults, write_faults
from polvet.kernel.compiled import Limits
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import Bound, load_fitted

Listener = Callable[[Record], None]
