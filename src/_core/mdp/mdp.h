// Sparse Markov decision processes: what the mdp kernels share.
//
// Rounding. Every number the solvers handle is >= 0. A sum of n products computed in double precision, rounding to nearest, has a
// relative error of at most (n + 3) u, u = 2^-53, also when each probability and the reward are the doubles nearest to the exact
// rationals (one u each); INEXACT more units cover probabilities that are themselves short products and sums of such doubles. `down` and `up` move a computed value outward by that and by TINY, which covers underflow. So the bounds hold
// for the MDP with the exact probabilities, in any evaluation order, and need no rounding mode. The slow twin is polvet/mdp/exact.py.
#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

namespace polvet {

inline constexpr double INFINITE = std::numeric_limits<double>::infinity();
inline constexpr double UNIT = 0x1p-53;
inline constexpr double TINY = 1e-300;
inline constexpr uint32_t UNSET = 0xFFFFFFFFu;
inline constexpr uint32_t DIRECT = 160;  // up to this many nodes linear systems are solved by elimination

// An MDP in compressed rows, owned by numpy arrays. The branches of one state are contiguous.
struct View {
    uint32_t states;
    const uint64_t* choice_start;
    const uint64_t* branch_start;
    const uint32_t* target;
    const double* probability;

    uint64_t first_branch(uint32_t s) const { return branch_start[choice_start[s]]; }
    uint64_t last_branch(uint32_t s) const { return branch_start[choice_start[s + 1]]; }
};

struct Bounds {
    double lo, hi;
};

// SOUND: `terms` is the number of products in the sum; the extra units cover the inexact inputs (a synchronisation of k automata has a
// probability of k factors, 2k - 1 units off; branches to one state are summed), the division by a row sum (whose own terms the caller
// counts) and the two roundings in this very function.
inline constexpr double INEXACT = 64;
inline double down(double x, double terms) {
    if (x == INFINITE) return x;
    const double y = x - (x * ((terms + INEXACT) * UNIT) + TINY);
    return y > 0 ? y : 0.0;
}
inline double up(double x, double terms) { return x + (x * ((terms + INEXACT) * UNIT) + TINY); }

// The deadline, and the user's Ctrl-C. `expired` is cheap: the clock is read once per 2^16 units of work.
class Poll {
public:
    explicit Poll(double seconds);
    bool expired(uint64_t work = 1) {
        work_ += work;
        return work_ >= (1u << 16) ? look() : over_;
    }
    bool over() const { return over_; }

private:
    bool look();  // throws the pending Python exception when a signal came
    uint64_t work_ = 0;
    bool over_ = false;
    std::chrono::steady_clock::time_point deadline_, last_;
};

// What to optimise. `stop` ends a run: 1 = goal, 2 = lost, 0 = goes on.
struct Problem {
    View model;
    const uint8_t* stop;
    const double* reward;  // per choice; null for a probability
    const Bounds* cut;     // per choice; lo >= 0: the choice has no branches and is worth that; null: no such choice
    bool maximise;
    double gap;                              // relative, wanted at every solved state
    std::vector<uint32_t>* order = nullptr;  // collects the states in the order they are settled
};

struct Statistics {
    uint64_t sweeps = 0, components = 0, largest = 0, unsolved = 0;
    bool limit = false, loops = false;  // loops: some state has a branch to itself
};

// Bounds and an optimal choice (number inside the state, UNSET where there is none) for every state reachable from `roots` without
// passing a stopped state; other states keep what the arrays hold.
void solve_topologically(const Problem& problem, const uint32_t* roots, uint64_t root_count, Bounds* value, uint32_t* choice,
                         Statistics& statistics, Poll& poll);

// One part of the graph in local numbers: the inner branches of each choice, and what is known of the outer ones.
struct Local {
    std::vector<uint32_t> choice_start, branch_start, target, owner;
    std::vector<uint8_t> flags;  // LEAVES, NOT_ZERO, NOT_ONE, DIVERGES, REWARDED

    uint32_t nodes() const { return uint32_t(choice_start.size() - 1); }
    uint32_t choices() const { return uint32_t(owner.size()); }
    void clear();
};
inline constexpr uint8_t LEAVES = 1, NOT_ZERO = 2, NOT_ONE = 4, DIVERGES = 8, REWARDED = 16;

// For each node the choices (with repetition) that have a branch into it.
struct Predecessors {
    std::vector<uint32_t> start, choice;
    void build(const Local& part);
};

// The greatest set of nodes that each keep an allowed choice staying inside the set; `allowed` shrinks to those choices.
// Returns how many nodes are in it; `inside[node]` tells which.
uint32_t greatest_closed_set(const Local& part, const Predecessors& back, std::vector<uint8_t>& allowed, std::vector<uint8_t>& inside);

// Maximal end components of the part, using `allowed` choices only (which shrinks to theirs); component of each node or UNSET.
uint32_t end_components(const Local& part, const Predecessors& back, std::vector<uint8_t>& allowed, std::vector<uint32_t>& component);

// A contracting system x = opt_choice (constant + sum p x) on one strongly connected part; see mdp/iterate.cpp.
struct Equations {
    std::vector<uint32_t> choice_start, branch_start, target, origin;
    std::vector<double> probability, middle, terms, leave;  // leave: probability mass of each row that goes outside
    std::vector<Bounds> constant;
    uint32_t nodes() const { return uint32_t(choice_start.size() - 1); }
    void clear();
};

// Sound bounds and the choice (position in Equations) attaining the optimising one; false where the limit came first (bounds then trivial).
bool iterate(const Equations& system, bool maximise, double gap, double ceiling, std::vector<Bounds>& value, std::vector<uint32_t>& best,
             Statistics& statistics, Poll& poll);

// The solution of (I - P) x = right for one fixed choice per node; a proposal only, verified by the caller. See mdp/linear.cpp.
bool propose_solution(const Equations& system, const std::vector<uint32_t>& policy, const std::vector<double>& right, double tolerance,
                      std::vector<double>& x, Poll& poll);

}  // namespace polvet
