"""Types of the compiled kernels, whose source is `src/_core/`; written by `python -m docs.write_stub` with nanobind 3.1.0."""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

class Status(enum.Enum):
    DONE = 0
    TIME = 1
    MEMORY = 2
    STATES = 3
    INTERRUPTED = 4
    FAULT = 5

class Fault(enum.Enum):
    NONE = 0
    OUT_OF_BOUNDS = 1
    OVERFLOWED = 2
    DIVISION = 3
    INDEX = 4
    WRITTEN_TWICE = 5
    PROBABILITY = 6
    NOT_FINITE = 7
    TOO_MANY = 8

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
    def unpack(self, states: NDArray[numpy.uint64]) -> NDArray[numpy.int64]: ...
    def pack(self, values: NDArray[numpy.int64]) -> NDArray[numpy.uint64]: ...
    def holds(self, condition: int, states: NDArray[numpy.uint64]) -> NDArray[numpy.uint8]: ...
    def state_rewards(self, state: NDArray[numpy.uint64]) -> list[float]: ...
    def moves(
        self, state: NDArray[numpy.uint64], rewards: bool = False
    ) -> list[tuple[int, list[int], list[tuple[float, list[int], list[float]]]]] | None: ...

class Space:
    def __init__(
        self,
        program: Program,
        initial: NDArray[numpy.uint64],
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
    def initial(self) -> NDArray[numpy.uint32]: ...
    @property
    def parent(self) -> NDArray[numpy.uint32]: ...
    def states(self, begin: int = 0, end: int = 18446744073709551615) -> NDArray[numpy.uint64]: ...
    def find(self, state: NDArray[numpy.uint64]) -> int: ...
    def mask(self, condition: int) -> NDArray[numpy.uint8]: ...
    def take_matrix(
        self,
    ) -> tuple[
        NDArray[numpy.uint64],
        NDArray[numpy.uint64],
        NDArray[numpy.uint32],
        NDArray[numpy.float64],
        NDArray[numpy.int32],
        list[NDArray[numpy.float64]],
    ]: ...

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
    def unrank(self, ranks: NDArray[numpy.uint64]) -> NDArray[numpy.int64]: ...
    def structure(self) -> tuple[int, list[tuple[int, int, int]], list[tuple[int, int, int]]]: ...

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
        preferred: object | None,
    ) -> None: ...
    @staticmethod
    def of_table(
        born: NDArray[numpy.uint8],
        action_start: NDArray[numpy.uint32],
        outcome_start: NDArray[numpy.uint32],
        target: NDArray[numpy.uint32],
        algorithm: str,
        order: str = "app",
        seed: int = 0,
        share: bool = True,
        threads: int = 1,
        radius: int = 4294967295,
        preferred: object | None = None,
        patience: int = 32768,
    ) -> Decider: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def busy(self) -> list[float]: ...
    @property
    def faulty(self) -> NDArray[numpy.uint64]: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def known_states(self) -> int: ...
    def decide(
        self,
        states: NDArray[numpy.uint64],
        seconds: float,
        bytes: int,
        max_states: int,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[
        NDArray[numpy.uint8], NDArray[numpy.int32], NDArray[numpy.uint64], NDArray[numpy.uint64], NDArray[numpy.uint64]
    ]: ...
    def foresee(
        self,
        program: Program,
        variables: Sequence[int],
        lines: Sequence[tuple[float, float, int]],
        clocks: Sequence[tuple[int, int]],
        tops: Sequence[tuple[int, int]],
        verdicts: NDArray[numpy.uint8],
    ) -> None: ...
    def safe_policy(
        self, states: NDArray[numpy.uint64], seconds: float, bytes: int
    ) -> tuple[NDArray[numpy.uint64], NDArray[numpy.int32]]: ...
    def unsafe_rank(
        self, states: NDArray[numpy.uint64], seconds: float, bytes: int
    ) -> tuple[
        NDArray[numpy.uint64], NDArray[numpy.uint32], NDArray[numpy.uint32], NDArray[numpy.int32], NDArray[numpy.uint32]
    ]: ...
    def outlook(
        self, states: NDArray[numpy.uint64], seconds: float, bytes: int
    ) -> tuple[NDArray[numpy.uint32], NDArray[numpy.int32], NDArray[numpy.uint32], NDArray[numpy.uint64]]: ...

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
        states: NDArray[numpy.uint64],
        labels: int,
        seconds: float,
        bytes: int,
        most: int,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint8]]: ...
    @property
    def status(self) -> Status: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def faulty(self) -> NDArray[numpy.uint64]: ...
    @property
    def known_states(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...

class MdpModel:
    def __init__(
        self,
        choice_start: NDArray[numpy.uint64],
        branch_start: NDArray[numpy.uint64],
        target: NDArray[numpy.uint32],
        probability: NDArray[numpy.float64],
    ) -> None: ...

def mdp_validate(model: MdpModel, tolerance: float) -> tuple[int, int, float]: ...
def mdp_solve(
    model: MdpModel,
    stop: NDArray[numpy.uint8],
    reward: NDArray[numpy.float64] | None,
    maximise: bool,
    gap: float,
    roots: NDArray[numpy.uint32],
    value: NDArray[numpy.float64],
    choice: NDArray[numpy.uint32],
    time_limit: float,
) -> dict[str, int]: ...
def mdp_steps(
    model: MdpModel,
    stop: NDArray[numpy.uint8],
    reward: NDArray[numpy.float64] | None,
    maximise: bool,
    count: int,
    value: NDArray[numpy.float64],
    time_limit: float,
) -> int: ...
def mdp_reward_bounded(
    model: MdpModel,
    stop: NDArray[numpy.uint8],
    above: NDArray[numpy.uint8],
    amount: NDArray[numpy.uint32],
    maximise: bool,
    bound: int,
    at_least: bool,
    gap: float,
    value: NDArray[numpy.float64],
    time_limit: float,
) -> dict[str, int]: ...
def mdp_qualitative(
    model: MdpModel,
    safe: NDArray[numpy.uint8],
    goal: NDArray[numpy.uint8],
    maximise: bool,
    one: bool,
    result: NDArray[numpy.uint8],
) -> None: ...
def mdp_components(model: MdpModel, component: NDArray[numpy.uint32]) -> int: ...
def mdp_end_components(model: MdpModel, allowed: NDArray[numpy.uint8], component: NDArray[numpy.uint32]) -> int: ...
def mdp_backward(model: MdpModel, start: NDArray[numpy.uint64], choice: NDArray[numpy.uint32]) -> None: ...

class Scorer:
    @property
    def inputs(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    def scores32(self, rows: NDArray[numpy.float32]) -> NDArray[numpy.float32]: ...
    def scores64(self, rows: NDArray[numpy.float32]) -> NDArray[numpy.float64]: ...
    def choose(self, rows: NDArray[numpy.float32], applicable: NDArray[numpy.uint8] | None) -> NDArray[numpy.int32]: ...

class Enclosed(Scorer):
    def rounding_bounds(
        self, rows: NDArray[numpy.float32]
    ) -> tuple[NDArray[numpy.float32], NDArray[numpy.float64]]: ...
    def coarse_bound(self, largest: float) -> float: ...
    def choose_surely(
        self, rows: NDArray[numpy.float32], applicable: NDArray[numpy.uint8] | None
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint8]]: ...
    def possible(
        self, rows: NDArray[numpy.float32], applicable: NDArray[numpy.uint8] | None
    ) -> NDArray[numpy.uint8]: ...

class Mlp(Enclosed):
    def __init__(
        self, layers: Sequence[tuple[NDArray[numpy.float32], NDArray[numpy.float32]]], softmax: bool = False
    ) -> None: ...

class UnitGraph(Enclosed):
    def __init__(self, inputs: int) -> None: ...
    def add_affine(
        self,
        columns: Sequence[int],
        shared: bool,
        weights: NDArray[numpy.float32],
        bias: NDArray[numpy.float32],
        sizes: NDArray[numpy.float32],
        roundings: int,
    ) -> None: ...
    def add_unit(
        self, name: str, columns: Sequence[int], a: NDArray[numpy.float32], b: NDArray[numpy.float32]
    ) -> None: ...
    def add_product(self, left: Sequence[int], right: Sequence[int]) -> None: ...
    def finish(self, scores: Sequence[int], softmax: bool) -> None: ...

def unit_value(name: str, x: float, a: float, b: float) -> float: ...
def unit_slopes(name: str, low: float, high: float, a: float, b: float) -> tuple[float, float]: ...
def unit_lines(name: str, low: float, high: float, a: float, b: float) -> list[float]: ...

class Trees(Scorer):
    def __init__(
        self,
        inputs: int,
        roots: NDArray[numpy.int32],
        tree_output: NDArray[numpy.int32],
        feature: NDArray[numpy.int32],
        threshold: NDArray[numpy.float32],
        left: NDArray[numpy.int32],
        right: NDArray[numpy.int32],
        flags: NDArray[numpy.uint8],
        leaf: NDArray[numpy.int32],
        values: NDArray[numpy.float64],
        base: NDArray[numpy.float64],
        divisor: float,
        wide: bool,
        strict: bool,
    ) -> None: ...
    def leaves(self, rows: NDArray[numpy.float32]) -> NDArray[numpy.int32]: ...

def float32_logit(probability: float) -> float: ...
def use_portable_network_kernel(portable: bool) -> None: ...
def use_walking_trees(walking: bool) -> None: ...

NOTHING_APPLICABLE: int = -1
SCORE_IS_NAN: int = -2

class Enlargement:
    def __init__(
        self,
        choice_start: NDArray[numpy.uint64],
        branch_start: NDArray[numpy.uint64],
        target: NDArray[numpy.uint32],
        probability: NDArray[numpy.float64],
        option_start: NDArray[numpy.uint64],
        option_choice: NDArray[numpy.uint64],
        initial: NDArray[numpy.uint32],
        minimum: NDArray[numpy.float64],
        least: NDArray[numpy.uint32],
        rank: NDArray[numpy.uint32],
        bound: float,
        cap: int,
    ) -> None: ...
    def reset(self, seed: NDArray[numpy.uint8]) -> float: ...
    def enlarge(
        self, priority: NDArray[numpy.float64], slack: float, seconds: float, work: int
    ) -> tuple[list[list[int]], list[int], list[int]]: ...
    def extension(self, option: int, best: bool) -> list[int]: ...
    def permit(self, options: Sequence[int]) -> float: ...
    def read(
        self, permitted: NDArray[numpy.uint8], reached: NDArray[numpy.uint8], value: NDArray[numpy.float64]
    ) -> None: ...
    def work(self) -> int: ...
    def count(self) -> int: ...

def reach_permitted(
    branch_start: NDArray[numpy.uint64],
    target: NDArray[numpy.uint32],
    option_start: NDArray[numpy.uint64],
    option_choice: NDArray[numpy.uint64],
    permitted: NDArray[numpy.uint8],
    initial: NDArray[numpy.uint32],
    reached: NDArray[numpy.uint8],
) -> None: ...
def least_risk_game(
    branch_start: NDArray[numpy.uint64],
    target: NDArray[numpy.uint32],
    probability: NDArray[numpy.float64],
    option_start: NDArray[numpy.uint64],
    option_choice: NDArray[numpy.uint64],
    value: NDArray[numpy.float64],
    best: NDArray[numpy.uint32],
    seconds: float,
) -> bool: ...
def q_learn(
    branch_start: NDArray[numpy.uint64],
    target: NDArray[numpy.uint32],
    probability: NDArray[numpy.float64],
    option_start: NDArray[numpy.uint64],
    option_choice: NDArray[numpy.uint64],
    permitted: NDArray[numpy.uint8],
    initial: NDArray[numpy.uint32],
    cost: NDArray[numpy.float64],
    quality: NDArray[numpy.float64],
    seen: NDArray[numpy.uint64],
    episodes: int,
    longest: int,
    explore: float,
    seed: int,
    seconds: float,
) -> int: ...

class ShieldTable:
    def __init__(self, states: NDArray[numpy.int64], masks: NDArray[numpy.uint8]) -> None: ...
    def mask(self, states: NDArray[numpy.int64], masks: NDArray[numpy.uint8], places: NDArray[numpy.int64]) -> None: ...

class BoundPolicy:
    def __init__(
        self,
        program: Program,
        policy: object,
        inputs: Sequence[int],
        label_of_output: Sequence[int],
        labels: int,
        filtered: bool,
        features: Program | None = None,
        functions: object | None = None,
    ) -> None: ...
    def rows(self, states: NDArray[numpy.uint64]) -> NDArray[numpy.float32]: ...

def simulate(
    policy: BoundPolicy,
    starts: NDArray[numpy.uint64],
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
    policy: BoundPolicy, start: NDArray[numpy.uint64], fail: int, goal: int, run: int, max_steps: int, seed: int
) -> dict[str, Any]: ...

class Inspector:
    def __init__(self, policy: BoundPolicy, fail: int, goal: int) -> None: ...
    def inspect(
        self,
        starts: NDArray[numpy.uint64],
        seconds: float,
        bytes: int,
        states: int,
        progress: Callable[[int, int], None] | None,
    ) -> NDArray[numpy.uint8]: ...
    def witness(self, start: NDArray[numpy.uint64]) -> tuple[NDArray[numpy.uint64], NDArray[numpy.int32], int]: ...
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
    def expanded(self) -> int: ...
    @property
    def transitions(self) -> int: ...
    @property
    def branching(self) -> int: ...
    @property
    def near_ties(self) -> int: ...
    @property
    def ends(self) -> list[int]: ...
    @property
    def faulty(self) -> NDArray[numpy.uint64]: ...

class Lanes:
    def __init__(
        self,
        program: Program,
        starts: NDArray[numpy.uint64],
        lanes: int,
        labels: int,
        inputs: Sequence[int],
        fail: int,
        goal: int,
        max_steps: int,
        at_once: bool,
        features: Program | None = None,
    ) -> None: ...
    def seed(self, lane: int, seed: int) -> None: ...
    def restart(self, rows: NDArray[numpy.float32], masks: NDArray[numpy.uint8]) -> bool: ...
    def step(
        self,
        labels: NDArray[numpy.int64],
        rows: NDArray[numpy.float32],
        masks: NDArray[numpy.uint8],
        cost: NDArray[numpy.float64],
        end: NDArray[numpy.uint8],
        last: NDArray[numpy.float32],
    ) -> bool: ...
    def states(self) -> NDArray[numpy.uint64]: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def faulty(self) -> NDArray[numpy.uint64]: ...

class Rollout:
    def __init__(
        self,
        policy: BoundPolicy,
        starts: NDArray[numpy.uint64],
        fail: int,
        goal: int,
        lanes: int,
        max_steps: int,
        seed: int,
    ) -> None: ...
    def collect(self, policy: BoundPolicy, steps: int, epsilon: float) -> dict[str, Any]: ...

class Visits:
    def __init__(self) -> None: ...
    @property
    def cells(self) -> int: ...

class StateSet:
    def __init__(self, words: int) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, states: NDArray[numpy.uint64]) -> NDArray[numpy.uint32]: ...
    def states(self, begin: int, end: int) -> NDArray[numpy.uint64]: ...

def fuzz(
    policy: BoundPolicy,
    starts: NDArray[numpy.uint64],
    runs: NDArray[numpy.uint64],
    temperature: NDArray[numpy.float64],
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
def policy_steps(policy: BoundPolicy, states: NDArray[numpy.uint64], fail: int, goal: int) -> dict[str, Any]: ...

class Reached(enum.Enum):
    OPEN = 0
    CLOSED = 1
    DOUBTFUL = 2
    UNSAFE = 3

class Reachability:
    def __init__(
        self, policy: BoundPolicy, fail: int, goal: int, stuck_is_bad: bool, deadlock_is_bad: bool
    ) -> None: ...
    def add_starts(self, states: NDArray[numpy.uint64]) -> int: ...
    def close(
        self, threads: int, seconds: float, bytes: int, states: int, progress: Callable[[int, int], None] | None
    ) -> None: ...
    def witness(self) -> tuple[NDArray[numpy.uint64], NDArray[numpy.int32], int]: ...
    def states(self) -> NDArray[numpy.uint64]: ...
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
    def faulty(self) -> NDArray[numpy.uint64]: ...

class BoxAnswer(enum.Enum):
    NO = 0
    YES = 1
    NEAR_TIE = 2
    UNKNOWN = 3

class BoxSystem:
    def __init__(
        self,
        domain: tuple[Any, ...],
        policy: object | None,
        inputs: Sequence[int],
        filtered: bool,
        guards: Sequence[Any],
    ) -> None: ...
    def add_step(self, output: int, cell: object, updates: Sequence[Any]) -> None: ...
    def set_rows(self, rows: Sequence[Any]) -> None: ...
    def set_ended(self, cells: object) -> None: ...
    def block(self, lower: Sequence[int], upper: Sequence[int]) -> None: ...
    @property
    def enumerated(self) -> float: ...
    @enumerated.setter
    def enumerated(self, arg: float, /) -> None: ...
    @property
    def alone(self) -> float: ...
    @alone.setter
    def alone(self, arg: float, /) -> None: ...
    def unblock_all(self) -> None: ...
    @property
    def blocked(self) -> list[tuple[list[int], list[int]]]: ...
    def all_blocked(self, lower: Sequence[int], upper: Sequence[int], nodes: int) -> bool: ...
    def chooses(self, state: Sequence[int], output: int) -> BoxAnswer: ...
    def find(
        self,
        regions: Sequence[Any],
        outputs: Sequence[int],
        without: object,
        without_boxes: object,
        use_rows: bool,
        seed: int,
        nodes: int,
        seconds: float,
        until_yes: bool,
        threads: int,
    ) -> list[tuple[BoxAnswer, tuple[int, ...] | None, int]]: ...
    def find_step_into(
        self,
        targets: object,
        sources: object,
        without_boxes: object,
        order: Sequence[int],
        seed: int,
        nodes: int,
        seconds: float,
        threads: int,
    ) -> list[tuple[BoxAnswer, tuple[int, ...] | None, int, int]]: ...
    def apply(self, state: Sequence[int], step: int) -> list[int]: ...
    def widen(self, state: Sequence[int], step: int, target: object, seed: int) -> tuple[list[int], list[int]]: ...

class LongestWalks:
    def __init__(self, size: int, sources: NDArray[numpy.int64], targets: NDArray[numpy.int64]) -> None: ...
    def search_real(
        self, weights: NDArray[numpy.float64], tolerance: float, sweeps: int, start: NDArray[numpy.float64] | None
    ) -> NDArray[numpy.float64] | list[NDArray[numpy.int64]] | None: ...
    def search_whole(
        self, weights: NDArray[numpy.int64], sweeps: int, start: NDArray[numpy.int64] | None
    ) -> NDArray[numpy.int64] | list[NDArray[numpy.int64]] | None: ...

def strong_components(
    size: int, sources: NDArray[numpy.int64], targets: NDArray[numpy.int64]
) -> NDArray[numpy.int64]: ...
def breadth_first(
    size: int, sources: NDArray[numpy.int64], targets: NDArray[numpy.int64]
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]: ...
