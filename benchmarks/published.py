"""What the paper on safety debugging reports in its Table 2, for policies that are not public.

Source  Cascioli, Jain, Steinmetz, Davis, Hoffmann, Safety Debugging of Tree-Ensemble Action Policies in AI Planning, 2026
        %Unsafe and %Goal of the input policy, after the default loop (MILP) and after penalty trees; None where the paper has
        no figure (out of memory or time). `Icy + Park` on one-way lines has one %Goal column fewer in print: the first two are
        equal where its Table 1 has them all, and taken as equal here.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A row of the table."""

    unsafe: float | None
    unsafe_after: float | None
    unsafe_penalty: float | None
    goal: float | None
    goal_after: float | None
    goal_penalty: float | None
    faults: int
    trees_added: int
    outcome: str
    unsafe_unverified: float | None  # NoVer.: the loop until verification was first asked
    goal_unverified: float | None
    iterations: int
    verifications: int
    runtime: str  # fault analysis / Gurobi / verification; TO, OOM: out of time, of memory


TABLE: dict[str, Published] = {
    "8Blocks CI": Published(1.1, 0.0, 0.0, 92.0, 77.7, 92.8, 1, 0, "Safe (IC3)", 0.0, 77.7, 2, 1, "6m/<1s/8m"),
    "8Blocks CA": Published(1.3, 0.0, 0.9, 91.8, 37.3, 92.7, 15, 0, "Improved", 0.0, 37.4, 13, 6, "47m/<1s/TO"),
    "Transport": Published(2.3, 0.0, 2.3, 0.0, 0.0, 0.0, 26, 0, "Improved", 0.0, 0.0, 16, 8, "11m/<1s/TO"),
    "Beluga (3 Jigs)": Published(
        100.0, 0.0, 83.6, 82.3, 100.0, 83.3, 33, 0, "Safe (PPA)", 0.0, 100.0, 6, 1, "4m/<1s/19s"
    ),
    "Beluga (4 Jigs)": Published(
        100.0, 0.0, 79.1, 85.0, 100.0, 94.3, 203, 3, "Safe (IC3)", 0.0, 100.0, 10, 1, "10m/25s/4m"
    ),
    "Beluga (5 Jigs)": Published(
        100.0, 0.0, 100.0, 69.4, 100.0, 88.3, 2574, 19, "Safe (IC3)", 0.0, 100.0, 22, 1, "49m/45h/5h"
    ),
    "Beluga (6 Jigs)": Published(
        98.7, None, None, 86.1, None, None, 6196, 4, "Gurobi TO", None, None, 3, 0, "22m/TO/-"
    ),
    "Beluga (8 Jigs)": Published(
        100.0, None, None, 70.7, None, None, 20420, 5, "Gurobi TO", None, None, 2, 0, "1h/TO/-"
    ),
    "1 way line (15, 10)": Published(
        100.0, 0.1, 98.6, 0.0, 99.9, 1.4, 8053, 0, "Improved", 0.1, 99.9, 3, 1, "1m/<1s/TO"
    ),
    "1 way line (17, 10)": Published(
        1.1, 0.0, 1.0, 98.9, 100.0, 99.0, 30, 0, "Improved", 0.0, 100.0, 2, 1, "35s/<1s/TO"
    ),
    "1 way line (20, 10)": Published(
        100.0, 0.2, 30.0, 0.0, 99.8, 70.0, 3797, 0, "Improved", 0.2, 99.8, 3, 1, "1m/<1s/TO"
    ),
    "1 way line (30, 20)": Published(
        100.0, 1.2, 95.3, 0.0, 98.8, 4.7, 11349, 0, "Improved", 1.2, 98.8, 4, 1, "1h/3s/TO"
    ),
    "1 way line (40, 25)": Published(None, None, None, 0.0, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"),
    "1 way line (15, 10) Icy + Park": Published(
        99.6, 0.0, 28.7, 91.6, 91.6, 91.6, 27, 0, "Safe (PPA)", 0.0, 91.6, 2, 1, "49s/<1s/2m"
    ),
    "1 way line (17, 10) Icy + Park": Published(
        99.5, 0.0, 29.9, 90.2, 90.2, 90.2, 46, 0, "Safe (PPA)", 0.0, 90.2, 2, 1, "52s/<1s/1h"
    ),
    "1 way line (20, 10) Icy + Park": Published(
        99.5, 1.3, 28.2, 91.5, 91.5, 91.5, 54, 0, "Improved", 1.3, 91.5, 4, 2, "1m/<1s/TO"
    ),
    "1 way line (30, 20) Icy + Park": Published(
        99.9, 21.1, 99.7, 46.2, 46.2, 46.2, 2431, 0, "Improved", 21.1, 46.2, 3, 1, "59m/1s/TO"
    ),
    "1 way line (40, 25) Icy + Park": Published(
        54.4, 44.8, 54.4, 44.5, 44.5, 44.5, 209, 0, "Improved", 44.8, 44.5, 3, 1, "13m/<1s/TO"
    ),
    "1 way line (15, 10) Icy": Published(
        100.0, 100.0, 100.0, 88.2, 90.9, 90.4, 23, 0, "Stopped", 100.0, 90.9, 2, 1, "4m/<1s/3m"
    ),
    "1 way line (17, 10) Icy": Published(
        100.0, 100.0, 100.0, 87.2, 91.6, 91.6, 8, 0, "Stopped", 100.0, 91.6, 2, 1, "6m/<1s/TO"
    ),
    "1 way line (20, 10) Icy": Published(
        100.0, 100.0, 100.0, 90.8, 91.6, 91.3, 19, 0, "Improved", 100.0, 91.6, 2, 1, "10m/<1s/TO"
    ),
    "1 way line (30, 20) Icy": Published(
        100.0, None, None, 49.7, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"
    ),
    "1 way line (40, 25) Icy": Published(
        100.0, None, None, 54.0, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"
    ),
    "2 way line (15, 10)": Published(100.0, 0.0, 99.3, 0.0, 0.0, 0.0, 9511, 0, "Improved", 0.0, 0.0, 3, 1, "1m/<1s/TO"),
    "2 way line (17, 10)": Published(1.1, 0.0, 0.5, 98.9, 98.9, 98.9, 13, 0, "Improved", 0.0, 98.9, 2, 1, "54s/<1s/TO"),
    "2 way line (20, 10)": Published(100.0, 0.1, 33.3, 0.0, 0.0, 0.0, 7304, 0, "Improved", 0.1, 0.0, 7, 1, "2m/3s/TO"),
    "2 way line (30, 20)": Published(80.9, 0.3, 80.9, 0.0, 0.0, 0.0, 14185, 0, "Improved", 0.3, 0.0, 4, 1, "1m/2s/TO"),
    "2 way line (40, 25)": Published(100.0, 0.1, 99.2, 0.0, 0.0, 0.0, 9967, 0, "Improved", 0.1, 0.0, 6, 1, "3m/1s/TO"),
    "2 way line (15, 10) Icy + Park": Published(
        100.0, 0.0, 99.0, 17.9, 22.9, 17.8, 1259, 0, "Safe (PPA)", 0.0, 22.9, 3, 1, "2m/1s/1h"
    ),
    "2 way line (17, 10) Icy + Park": Published(
        100.0, 0.0, 99.2, 18.2, 21.3, 18.2, 911, 0, "Improved", 0.0, 21.3, 2, 1, "1m/<1s/TO"
    ),
    "2 way line (20, 10) Icy + Park": Published(
        100.0, 1.4, 99.3, 17.9, 17.9, 17.9, 1483, 0, "Improved", 1.4, 17.8, 4, 2, "2m/<1s/TO"
    ),
    "2 way line (30, 20) Icy + Park": Published(
        70.4, 12.3, 70.4, 0.0, 0.0, 0.0, 5250, 0, "Improved", 12.3, 0.0, 6, 1, "2m/1s/TO"
    ),
    "2 way line (40, 25) Icy + Park": Published(
        65.6, 11.3, 65.0, 0.7, 0.8, 0.7, 573, 0, "Improved", 11.3, 0.8, 2, 1, "27m/<1s/TO"
    ),
    "2 way line (15, 10) Icy": Published(
        100.0, 0.0, 99.2, 17.2, 13.8, 17.2, 989, 0, "Safe (PPA)", 29.3, 20.4, 6, 2, "3m/<1s/6h"
    ),
    "2 way line (17, 10) Icy": Published(
        100.0, 0.0, 99.7, 16.9, 24.8, 17.9, 1884, 0, "Safe (PPA)", 45.9, 23.9, 8, 2, "5m/4s/35m"
    ),
    "2 way line (20, 10) Icy": Published(
        100.0, 0.1, 99.7, 17.7, 26.1, 17.7, 2264, 0, "Improved", 2.7, 26.1, 3, 1, "2m/<1s/TO"
    ),
    "2 way line (30, 20) Icy": Published(11.3, 0.0, 6.0, 4.5, 4.5, 4.5, 3, 0, "Improved", 0.0, 4.5, 2, 1, "2m/<1s/TO"),
    "2 way line (40, 25) Icy": Published(
        100.0, 1.6, 99.8, 0.8, 1.2, 0.8, 8856, 0, "Improved", 1.6, 1.2, 4, 1, "13h/24s/TO"
    ),
    "Bouncing Ball (0.01)": Published(
        4.9, 0.0, 4.9, 95.1, 100.0, 95.1, 531, 0, "Improved", 0.0, 100.0, 2, 1, "1m/<1s/OOM"
    ),
    "Bouncing Ball (0.05)": Published(
        2.8, 0.0, 2.8, 97.2, 100.0, 97.2, 292, 0, "Improved", 0.0, 100.0, 2, 1, "1m/<1s/OOM"
    ),
    "Bouncing Ball (0.5)": Published(
        0.1, 0.0, 0.1, 99.9, 100.0, 99.9, 5, 0, "Improved", 0.0, 100.0, 2, 1, "1m/<1s/OOM"
    ),
    "Inverted Pendulum (0.01)": Published(
        None, None, None, 0.0, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"
    ),
    "Inverted Pendulum (0.05)": Published(
        0.5, None, None, 99.5, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"
    ),
    "Inverted Pendulum (0.1)": Published(
        2.9, 0.0, 2.9, 97.1, 100.0, 97.1, 357, 0, "Improved", 0.0, 100.0, 4, 1, "54m/<1s/OOM"
    ),
    "Follow Car (0.01)": Published(None, None, None, 0.0, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"),
    "Follow Car (0.05)": Published(None, None, None, 19.3, None, None, 0, 0, "FA OOM", None, None, 1, 0, "OOM/-/-"),
    "Follow Car (0.4)": Published(
        22.4, 0.0, 22.4, 77.6, 100.0, 77.6, 2224, 0, "Improved", 0.0, 100.0, 2, 1, "2m/<1s/OOM"
    ),
}
