"""Types of the compiled kernels; the functions themselves are in `src/_core/`."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Status(Enum):
    DONE = 0
    TIME = 1
    MEMORY = 2
    STATES = 3
    INTERRUPTED = 4
    FAULT = 5

class Fault(Enum):
    NONE = 0
    OUT_OF_BOUNDS = 1
    OVERFLOWED = 2
    DIVISION = 3
    INDEX = 4
    WRITTEN_TWICE = 5
    PROBABILITY = 6
    NOT_FINITE = 7

class Program:
    @staticmethod
    def make(data: dict[str, Any]) -> Program: ...
    @property
    def words(self) -> int: ...
    @property
    def instructions(self) -> int: ...

class Machine:
    def __init__(self, program: Program) -> None: ...
    @property
    def fault(self) -> Fault: ...
    def pack(self, values: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def unpack(self, states: NDArray[np.uint64]) -> NDArray[np.int64]: ...
    def holds(self, condition: int, states: NDArray[np.uint64]) -> NDArray[np.uint8]: ...
    def state_rewards(self, state: NDArray[np.uint64]) -> list[float]: ...
    def moves(
        self, state: NDArray[np.uint64], rewards: bool = False
    ) -> list[tuple[int, list[int], list[tuple[float, list[int], list[float]]]]] | None: ...

class Space:
    def __init__(
        self,
        program: Program,
        initial: NDArray[np.uint64],
        build: bool,
        parents: bool,
        stop_at: Sequence[int],
        seconds: float,
        bytes: int,
        states: int,
        progress: Callable[[int, int], None] | None,
        policy: BoundPolicy | None = None,
        threads: int = 1,
        fewest: int = 256,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def faulty(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def expanded(self) -> int: ...
    @property
    def choices(self) -> int: ...
    @property
    def moves(self) -> int: ...
    @property
    def transitions(self) -> int: ...
    @property
    def deadlocks(self) -> int: ...
    @property
    def stuck(self) -> int: ...
    @property
    def near_ties(self) -> int: ...
    @property
    def policy_broken(self) -> bool: ...
    @property
    def initial(self) -> NDArray[np.uint32]: ...
    @property
    def parent(self) -> NDArray[np.uint32]: ...
    def states(self, begin: int = 0, end: int = ...) -> NDArray[np.uint64]: ...
    def find(self, state: NDArray[np.uint64]) -> int: ...
    def mask(self, condition: int) -> NDArray[np.uint8]: ...
    def take_matrix(
        self,
    ) -> tuple[
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint32],
        NDArray[np.float64],
        NDArray[np.int32],
        list[NDArray[np.float64]],
    ]: ...

class MdpModel:
    def __init__(
        self,
        choice_start: NDArray[np.uint64],
        branch_start: NDArray[np.uint64],
        target: NDArray[np.uint32],
        probability: NDArray[np.float64],
    ) -> None: ...

def mdp_validate(model: MdpModel, tolerance: float) -> tuple[int, int, float]: ...
def mdp_solve(
    model: MdpModel,
    stop: NDArray[np.uint8],
    reward: NDArray[np.float64] | None,
    maximise: bool,
    gap: float,
    roots: NDArray[np.uint32],
    value: NDArray[np.float64],
    choice: NDArray[np.uint32],
    time_limit: float,
) -> dict[str, int]: ...
def mdp_steps(
    model: MdpModel,
    stop: NDArray[np.uint8],
    reward: NDArray[np.float64] | None,
    maximise: bool,
    count: int,
    value: NDArray[np.float64],
    time_limit: float,
) -> int: ...
def mdp_reward_bounded(
    model: MdpModel,
    stop: NDArray[np.uint8],
    above: NDArray[np.uint8],
    amount: NDArray[np.uint32],
    maximise: bool,
    bound: int,
    at_least: bool,
    gap: float,
    value: NDArray[np.float64],
    time_limit: float,
) -> dict[str, int]: ...
def mdp_qualitative(
    model: MdpModel,
    safe: NDArray[np.uint8],
    goal: NDArray[np.uint8],
    maximise: bool,
    one: bool,
    result: NDArray[np.uint8],
) -> None: ...
def mdp_components(model: MdpModel, component: NDArray[np.uint32]) -> int: ...
def mdp_end_components(model: MdpModel, allowed: NDArray[np.uint8], component: NDArray[np.uint32]) -> int: ...
def mdp_backward(model: MdpModel, start: NDArray[np.uint64], choice: NDArray[np.uint32]) -> None: ...

class MarginSearch:
    def __init__(
        self,
        program: Program,
        fail: int,
        goal: int,
        variable: int,
        falls: bool,
        ceiling: int,
        floors: Sequence[tuple[int, Sequence[int]]],
    ) -> None: ...
    def ask(
        self,
        states: NDArray[np.uint64],
        labels: int,
        seconds: float,
        bytes: int,
        most: int,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def faulty(self) -> NDArray[np.uint64]: ...
    @property
    def known_states(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...

class Decider:
    def __init__(
        self,
        program: Program,
        fail: int,
        goal: int,
        algorithm: str,
        order: str,
        seed: int,
        share: bool,
        threads: int,
        radius: int,
        preferred: BoundPolicy | Callable[[NDArray[np.uint64]], int] | None,
    ) -> None: ...
    @staticmethod
    def of_table(
        born: NDArray[np.uint8],
        action_start: NDArray[np.uint32],
        outcome_start: NDArray[np.uint32],
        target: NDArray[np.uint32],
        algorithm: str,
        order: str = "app",
        seed: int = 0,
        share: bool = True,
        threads: int = 1,
        radius: int = ...,
        preferred: Callable[[NDArray[np.uint64]], int] | None = None,
        patience: int = ...,
    ) -> Decider: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def busy(self) -> list[float]: ...
    @property
    def faulty(self) -> NDArray[np.uint64]: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def known_states(self) -> int: ...
    def decide(
        self,
        states: NDArray[np.uint64],
        seconds: float,
        bytes: int,
        max_states: int,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]: ...
    def foresee(
        self, program: Program, variables: Sequence[int], lines: Sequence[tuple[float, float, int]],
        clocks: Sequence[tuple[int, int]], tops: Sequence[tuple[int, int]], verdicts: NDArray[np.uint8],
    ) -> None: ...  # fmt: skip
    def safe_policy(
        self, states: NDArray[np.uint64], seconds: float, bytes: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int32]]: ...
    def unsafe_rank(
        self, states: NDArray[np.uint64], seconds: float, bytes: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint32]]: ...
    def outlook(
        self, states: NDArray[np.uint64], seconds: float, bytes: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint32], NDArray[np.uint64]]: ...

# bindings/policies.cpp

NOTHING_APPLICABLE: int
SCORE_IS_NAN: int

class Scorer:
    @property
    def inputs(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    def scores32(self, rows: NDArray[np.float32]) -> NDArray[np.float32]: ...
    def scores64(self, rows: NDArray[np.float32]) -> NDArray[np.float64]: ...
    def choose(self, rows: NDArray[np.float32], applicable: NDArray[np.uint8] | None) -> NDArray[np.int32]: ...

class Enclosed(Scorer):
    def rounding_bounds(self, rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]: ...
    def coarse_bound(self, largest: float) -> float: ...
    def choose_surely(
        self, rows: NDArray[np.float32], applicable: NDArray[np.uint8] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]: ...
    def possible(self, rows: NDArray[np.float32], applicable: NDArray[np.uint8] | None) -> NDArray[np.uint8]: ...

class Mlp(Enclosed):
    def __init__(
        self, layers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]], softmax: bool = False
    ) -> None: ...

class UnitGraph(Enclosed):
    def __init__(self, inputs: int) -> None: ...
    def add_affine(
        self,
        columns: Sequence[int],
        shared: bool,
        weights: NDArray[np.float32],
        bias: NDArray[np.float32],
        sizes: NDArray[np.float32],
        roundings: int,
    ) -> None: ...
    def add_unit(self, name: str, columns: Sequence[int], a: NDArray[np.float32], b: NDArray[np.float32]) -> None: ...
    def add_product(self, left: Sequence[int], right: Sequence[int]) -> None: ...
    def finish(self, scores: Sequence[int], softmax: bool) -> None: ...

def unit_value(name: str, x: float, a: float, b: float) -> float: ...
def unit_slopes(name: str, low: float, high: float, a: float, b: float) -> tuple[float, float]: ...
def unit_lines(name: str, low: float, high: float, a: float, b: float) -> list[float]: ...

class Trees(Scorer):
    def __init__(
        self,
        inputs: int,
        roots: NDArray[np.int32],
        tree_output: NDArray[np.int32],
        feature: NDArray[np.int32],
        threshold: NDArray[np.float32],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        flags: NDArray[np.uint8],
        leaf: NDArray[np.int32],
        values: NDArray[np.float64],
        base: NDArray[np.float64],
        divisor: float,
        wide: bool,
        strict: bool,
    ) -> None: ...
    def leaves(self, rows: NDArray[np.float32]) -> NDArray[np.int32]: ...

def float32_logit(probability: float) -> float: ...
def use_portable_network_kernel(portable: bool) -> None: ...
def use_walking_trees(walking: bool) -> None: ...

class Diagram:
    def __init__(self) -> None: ...
    def integer(self, value: int) -> int: ...
    def number(self, value: float) -> int: ...
    def variable(self, lower: int, upper: int) -> int: ...
    def term(self, op: int, aux: int, constant: int, children: Sequence[int], factors: Sequence[int]) -> int: ...
    def compile(self, root: int, seconds: float, bytes: int, progress: Callable[[int, int], None] | None) -> None: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def fault_level(self) -> int: ...
    @property
    def fault_value(self) -> int: ...
    @property
    def overflowed(self) -> bool: ...
    @property
    def nodes(self) -> int: ...
    @property
    def total(self) -> tuple[int, int]: ...
    def unrank(self, ranks: NDArray[np.uint64]) -> NDArray[np.int64]: ...
    def structure(self) -> tuple[int, list[tuple[int, int, int]], list[tuple[int, int, int]]]: ...

class Enlargement:
    def __init__(
        self,
        choice_start: NDArray[np.uint64],
        branch_start: NDArray[np.uint64],
        target: NDArray[np.uint32],
        probability: NDArray[np.float64],
        option_start: NDArray[np.uint64],
        option_choice: NDArray[np.uint64],
        initial: NDArray[np.uint32],
        minimum: NDArray[np.float64],
        least: NDArray[np.uint32],
        rank: NDArray[np.uint32],
        bound: float,
        cap: int,
    ) -> None: ...
    def reset(self, seed: NDArray[np.uint8]) -> float: ...
    def enlarge(
        self, priority: NDArray[np.float64], slack: float, seconds: float, work: int
    ) -> tuple[list[list[int]], list[int], list[int]]: ...
    def work(self) -> int: ...
    def extension(self, option: int, best: bool) -> list[int]: ...
    def permit(self, options: Sequence[int]) -> float: ...
    def read(self, permitted: NDArray[np.uint8], reached: NDArray[np.uint8], value: NDArray[np.float64]) -> None: ...
    def count(self) -> int: ...

def reach_permitted(
    branch_start: NDArray[np.uint64],
    target: NDArray[np.uint32],
    option_start: NDArray[np.uint64],
    option_choice: NDArray[np.uint64],
    permitted: NDArray[np.uint8],
    initial: NDArray[np.uint32],
    reached: NDArray[np.uint8],
) -> None: ...
def least_risk_game(
    branch_start: NDArray[np.uint64],
    target: NDArray[np.uint32],
    probability: NDArray[np.float64],
    option_start: NDArray[np.uint64],
    option_choice: NDArray[np.uint64],
    value: NDArray[np.float64],
    best: NDArray[np.uint32],
    seconds: float,
) -> bool: ...
def q_learn(
    branch_start: NDArray[np.uint64],
    target: NDArray[np.uint32],
    probability: NDArray[np.float64],
    option_start: NDArray[np.uint64],
    option_choice: NDArray[np.uint64],
    permitted: NDArray[np.uint8],
    initial: NDArray[np.uint32],
    cost: NDArray[np.float64],
    quality: NDArray[np.float64],
    seen: NDArray[np.uint64],
    episodes: int,
    longest: int,
    explore: float,
    seed: int,
    seconds: float,
) -> int: ...

class ShieldTable:
    def __init__(self, states: NDArray[np.int64], masks: NDArray[np.uint8]) -> None: ...
    def mask(self, states: NDArray[np.int64], masks: NDArray[np.uint8], places: NDArray[np.int64]) -> None: ...

# policies/bound_policy.cpp, bindings/simulate.cpp

class BoundPolicy:
    def __init__(
        self,
        program: Program,
        policy: Scorer | Callable[[NDArray[np.float32], NDArray[np.uint8] | None], NDArray[np.int32]],
        inputs: Sequence[int],
        label_of_output: Sequence[int],
        labels: int,
        filtered: bool,
        features: Program | None = None,
        functions: Callable[[NDArray[np.uint64]], NDArray[np.float32]] | None = None,
    ) -> None: ...
    def rows(self, states: NDArray[np.uint64]) -> NDArray[np.float32]: ...

def simulate(
    policy: BoundPolicy,
    starts: NDArray[np.uint64],
    fail: int,
    goal: int,
    runs_per_start: int,
    max_steps: int,
    seed: int,
    first_run: int,
    threads: int,
    seconds: float,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]: ...
def trace(
    policy: BoundPolicy, start: NDArray[np.uint64], fail: int, goal: int, run: int, max_steps: int, seed: int
) -> dict[str, Any]: ...

class Reached(Enum):
    OPEN = 0
    CLOSED = 1
    DOUBTFUL = 2
    UNSAFE = 3

class Reachability:
    def __init__(
        self, policy: BoundPolicy, fail: int, goal: int, stuck_is_bad: bool, deadlock_is_bad: bool
    ) -> None: ...
    def add_starts(self, states: NDArray[np.uint64]) -> int: ...
    def close(
        self,
        threads: int,
        seconds: float,
        bytes: int,
        states: int,
        progress: Callable[[int, int], None] | None,
    ) -> None: ...
    def witness(self) -> tuple[NDArray[np.uint64], NDArray[np.int32], int]: ...
    def states(self) -> NDArray[np.uint64]: ...
    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def reached(self) -> Reached: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def policy_broken(self) -> bool: ...
    @property
    def expanded(self) -> int: ...
    @property
    def transitions(self) -> int: ...
    @property
    def near_ties(self) -> int: ...
    @property
    def ends(self) -> list[int]: ...
    @property
    def faulty(self) -> NDArray[np.uint64]: ...

class Inspector:
    def __init__(self, policy: BoundPolicy, fail: int, goal: int) -> None: ...
    def inspect(
        self,
        starts: NDArray[np.uint64],
        seconds: float,
        bytes: int,
        states: int,
        progress: Callable[[int, int], None] | None,
    ) -> NDArray[np.uint8]: ...
    def witness(self, start: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32], int]: ...
    @property
    def states(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def policy_broken(self) -> bool: ...
    @property
    def faulty(self) -> NDArray[np.uint64]: ...
    @property
    def expanded(self) -> int: ...
    @property
    def transitions(self) -> int: ...
    @property
    def branching(self) -> int: ...
    @property
    def near_ties(self) -> int: ...
    @property
    def ends(self) -> list[int]: ...

class Rollout:
    def __init__(
        self,
        policy: BoundPolicy,
        starts: NDArray[np.uint64],
        fail: int,
        goal: int,
        lanes: int,
        max_steps: int,
        seed: int,
    ) -> None: ...
    def collect(self, policy: BoundPolicy, steps: int, epsilon: float) -> dict[str, Any]: ...

class Lanes:
    def __init__(
        self,
        program: Program,
        starts: NDArray[np.uint64],
        lanes: int,
        labels: int,
        inputs: list[int],
        fail: int,
        goal: int,
        max_steps: int,
        at_once: bool,
        features: Program | None = None,
    ) -> None: ...
    def seed(self, lane: int, seed: int) -> None: ...
    def restart(self, rows: NDArray[np.float32], masks: NDArray[np.uint8]) -> bool: ...
    def step(
        self,
        labels: NDArray[np.int64],
        rows: NDArray[np.float32],
        masks: NDArray[np.uint8],
        cost: NDArray[np.float64],
        end: NDArray[np.uint8],
        last: NDArray[np.float32],
    ) -> bool: ...
    def states(self) -> NDArray[np.uint64]: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def faulty(self) -> NDArray[np.uint64]: ...

# bindings/fuzz.cpp

class Visits:
    def __init__(self) -> None: ...
    @property
    def cells(self) -> int: ...

class StateSet:
    def __init__(self, words: int) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, states: NDArray[np.uint64]) -> NDArray[np.uint32]: ...
    def states(self, begin: int, end: int) -> NDArray[np.uint64]: ...

def fuzz(
    policy: BoundPolicy,
    starts: NDArray[np.uint64],
    runs: NDArray[np.uint64],
    temperature: NDArray[np.float64],
    fail: int,
    goal: int,
    distance: int,
    novelty: float,
    visits: Visits | None,
    max_steps: int,
    seed: int,
    threads: int,
    seconds: float,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]: ...
def policy_steps(policy: BoundPolicy, states: NDArray[np.uint64], fail: int, goal: int) -> dict[str, Any]: ...

class BoxAnswer(Enum):
    NO = 0
    YES = 1
    NEAR_TIE = 2
    UNKNOWN = 3

class BoxSystem:
    enumerated: float
    alone: float
    def __init__(
        self, domain: tuple[Any, ...], policy: Any | None, inputs: list[int], filtered: bool, guards: list[Any]
    ) -> None: ...
    def add_step(self, output: int, cell: tuple[Any, ...], updates: list[Any]) -> None: ...
    def set_rows(self, rows: list[Any]) -> None: ...
    def set_ended(self, cells: list[Any]) -> None: ...
    def block(self, lower: Sequence[int], upper: Sequence[int]) -> None: ...
    def unblock_all(self) -> None: ...
    @property
    def blocked(self) -> list[tuple[list[int], list[int]]]: ...
    def is_blocked(self, state: Sequence[int]) -> bool: ...
    def all_blocked(self, lower: Sequence[int], upper: Sequence[int], nodes: int) -> bool: ...
    def chooses(self, state: Sequence[int], output: int) -> BoxAnswer: ...
    def find(
        self,
        regions: list[Any],
        outputs: list[int],
        without: list[Any],
        without_boxes: list[Any],
        use_rows: bool,
        seed: int,
        nodes: int,
        seconds: float,
        until_yes: bool,
        threads: int,
    ) -> list[tuple[BoxAnswer, tuple[int, ...] | None, int]]: ...
    def find_step_into(
        self,
        targets: list[Any],
        sources: tuple[Sequence[int], Sequence[int]],
        without_boxes: list[Any],
        order: list[int],
        seed: int,
        nodes: int,
        seconds: float,
        threads: int,
    ) -> list[tuple[BoxAnswer, tuple[int, ...] | None, int, int]]: ...
    def apply(self, state: Sequence[int], step: int) -> list[int]: ...
    def widen(
        self, state: Sequence[int], step: int, target: tuple[Any, ...], seed: int
    ) -> tuple[list[int], list[int]]: ...

class LongestWalks:
    def __init__(self, size: int, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None: ...
    def search_real(
        self, weights: NDArray[np.float64], tolerance: float, sweeps: int, start: NDArray[np.float64] | None
    ) -> NDArray[np.float64] | list[NDArray[np.int64]] | None: ...
    def search_whole(
        self, weights: NDArray[np.int64], sweeps: int, start: NDArray[np.int64] | None
    ) -> NDArray[np.int64] | list[NDArray[np.int64]] | None: ...

def strong_components(size: int, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]: ...
def breadth_first(
    size: int, sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
