// Questions about all states of a box: is there an integer state in this cell where the policy chooses this output?
//
// Source   Zhang et al., Efficient neural network robustness certification (CROWN), NeurIPS 2018; Singh et al., An abstract
//          domain for certifying neural networks (DeepPoly), POPL 2019: backward linear bounds. Devos, Meert, Davis, Veritas,
//          ICML 2021: boxes over split thresholds.
// Differs  states are integers: boxes shrink by the margin's half-space and by rows, small ones are enumerated; bounds are taken
//          over the box and the rows, by one multiplier per row (a continuous knapsack); every bound covers float32 rounding
// A yes is an executed state. A no rests on bounds that hold for every float32 evaluation order (SOUND marks where).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "boxes/cells.h"
#include "policies/policies.h"
#include "policies/unit_graph.h"

namespace polvet {

struct Update {
    int32_t variable;
    std::vector<Summand> terms;
    std::vector<Mark> marks;
    int64_t constant;
};

// One way the system moves: in `cell`, and where the policy chooses `output` (-1: whatever it chooses).
struct Step {
    int32_t output;
    Cell cell;
    std::vector<Update> updates;
    void apply(const int64_t* x, int64_t* successor) const;
};

enum class BoxAnswer : int32_t { NO, YES, NEAR_TIE, UNKNOWN };

struct BoxQuestion {
    Box box;
    std::vector<const Row*> rows;
    std::vector<const Cell*> without;  // cells whose states do not count
    std::vector<const Box*> without_boxes;
    int32_t output = -1;  // -1: the policy is not asked
};

struct Budget {
    uint64_t nodes = UINT64_MAX;
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    std::function<bool()> interrupted;  // asked now and then
    bool over() const { return std::chrono::steady_clock::now() > deadline || (interrupted && interrupted()); }
};

struct Outcome {
    BoxAnswer answer = BoxAnswer::NO;
    std::vector<int64_t> state;
    uint64_t nodes = 0;
    size_t number = 0;
};  // number: of the question in its group

// A question of a batch, stated when its turn comes; false: there is surely no such state.
struct BatchQuestion {
    std::function<bool(BoxQuestion&, std::vector<Row>&)> state;
    uint64_t seed;
    size_t group;  // 0, 1, ... in order: alternatives that share the nodes, and end with the first YES
};

// What a node learns from the policy's bounds: which rival excludes it, or how to go on.
struct NodeVerdict {
    bool excluded = false;
    std::vector<int64_t> candidate;  // a corner where the output's margin may be greatest
    int32_t split_variable = -1;
    int64_t split_value = 0;    // left part: x <= split_value
    int32_t beaten_by = -1;     // a rival that beats the output wherever it is applicable
    std::vector<double> known;  // bounds of neurons that hold in the box, from its parent; for its children after
};

class PolicyBounds {  // of one policy, for one question; used by one thread
public:
    virtual ~PolicyBounds() = default;
    // Bound the output's margin over the rivals with state[k] == INSIDE (all of the box) or MIXED (part of it); may shrink the box.
    virtual void judge(Box& box, const std::vector<const Row*>& rows, int32_t output, const std::vector<Relation>& rivals,
                       NodeVerdict& out) = 0;
    // Whether the output surely wins everywhere in the box against every rival that is not OUTSIDE.
    virtual bool wins(const Box& box, const std::vector<const Row*>& rows, int32_t output, const std::vector<Relation>& rivals) = 0;
};

struct PlainNetwork;  // a network's weights in double, over variables
struct PlainGraph;
struct PlainTrees;

class BoxSystem {
public:
    BoxSystem(size_t variables, Box domain, const Scorer* scorer, std::vector<int32_t> inputs, bool filtered,
              std::vector<std::vector<Cell>> guards);

    size_t variables;
    Box domain;
    const Scorer* scorer;               // null: no policy is asked
    const Enclosed* network = nullptr;  // where the scorer is one
    const Trees* trees = nullptr;
    std::vector<int32_t> inputs;  // the variable of each input
    bool filtered;
    std::vector<std::vector<Cell>> guards;  // per output: where its label is applicable
    std::vector<Step> steps;
    std::vector<Row> rows;    // hold in every state that counts
    std::vector<Cell> ended;  // goal and fail: no step leaves these
    std::shared_ptr<const PlainNetwork> plain;
    std::shared_ptr<const PlainGraph> graph;
    std::shared_ptr<const PlainTrees> ensemble;
    double enumerated = 64;  // boxes of at most so many states are tried state by state
    double alone = 0.002;    // seconds that a batch must last before it is worth another thread

    Outcome find(const BoxQuestion& question, uint64_t seed, const Budget& budget) const;
    // One answer per group, the same for any number of threads; with `until_yes` none after the first YES. See boxes/batch.cpp.
    std::vector<Outcome> find_all(const std::vector<BatchQuestion>& questions, const Budget& budget, bool until_yes,
                                  unsigned threads) const;
    // The question for a state within a box, outside `ended` and the given boxes, that the step takes into the target.
    BatchQuestion step_question(int32_t step, const Cell& target, const Box& within, const std::vector<const Box*>& without, uint64_t seed,
                                size_t group) const;
    std::unique_ptr<PolicyBounds> bounds(const Box& root) const;
    // Whether the step's output may be chosen in a state: YES in the reference order, NEAR_TIE in some other order, NO.
    BoxAnswer chooses(const int64_t* x, int32_t output) const;
    // Grow the state to a box whose every state (that satisfies the rows) takes this step into the target, surely.
    Box widen(const int64_t* x, int32_t step, const Cell& target, uint64_t seed) const;

private:
    bool preimage(const Step& step, const Cell& target, BoxQuestion& question, std::vector<Row>& made) const;
};

std::shared_ptr<const PlainNetwork> make_plain(const Mlp& net, const std::vector<int32_t>& inputs, size_t variables);
std::unique_ptr<PolicyBounds> network_bounds(const PlainNetwork& net, const Box& root);
std::shared_ptr<const PlainGraph> make_plain(const UnitGraph& graph, const std::vector<int32_t>& inputs, size_t variables);
std::unique_ptr<PolicyBounds> graph_bounds(const PlainGraph& plain);
std::shared_ptr<const PlainTrees> make_plain(const Trees& trees, const std::vector<int32_t>& inputs);
std::unique_ptr<PolicyBounds> tree_bounds(const PlainTrees& plain, size_t variables);

}  // namespace polvet
