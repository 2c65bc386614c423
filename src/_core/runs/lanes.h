// Episodes that somebody else steers: every lane takes the label it is told, all lanes at once.
//
// What a state allows, and where that leads, is remembered for all lanes. Chance is counter-based: an episode depends on the
// seed of its lane, on how many episodes the lane had since it was seeded, and on the labels taken; on nothing else.
// An episode ends in fail or goal (fail beats goal), where the label is not applicable (stuck), where nothing is (deadlock), or
// at its limit of steps. A lane whose episode has ended begins a new one: at once, or with the next step, which then takes no label.
#pragma once
#include "explore/explore.h"
#include "runs/simulate.h"

namespace polvet {

struct LaneOptions {
    int32_t fail = -1, goal = -1;  // conditions of the program
    uint64_t max_steps = 1000;
    size_t labels = 0;
    Inputs inputs;         // what is shown
    bool at_once = false;  // whether a new episode begins in the step that ends the one before
};

// What a step shows, one row per lane; `last` is written where a lane begins a new episode at once.
struct Shown {
    float *rows, *last;
    uint8_t *masks, *end;
    double* cost;
};

class Lanes {
public:
    Lanes(std::shared_ptr<const Program> program, std::vector<uint64_t> starts, size_t lanes, const LaneOptions& options);

    void seed(size_t lane, uint64_t seed);
    bool restart(size_t lane, const Shown& out);         // false where the model breaks; see fault, faulty
    bool step(const int64_t* labels, const Shown& out);  // labels: one per lane
    std::vector<uint64_t> states() const;                // packed, one per lane
    size_t size() const { return lanes_.size(); }

    std::shared_ptr<const Program> program;
    const LaneOptions options;
    Fault fault = Fault::NONE;
    std::vector<uint64_t> faulty;

private:
    struct Node {
        uint8_t kind = RUNNING;
        bool expanded = false;
        uint32_t begin = 0, silent = 0, end = 0;  // operators, by label; the silent ones last
    };
    struct Operator {
        int32_t label;
        uint32_t begin, end;
    };
    struct Lane {
        uint64_t seed = 0, episode = 0, step = 0;
        uint32_t node = 0;
        bool over = true;
    };

    const uint64_t* state(uint32_t id) const {
        return std::visit([id](const auto& s) { return s.state(id); }, store_);
    }
    uint32_t find(const uint64_t* words);
    bool open(uint32_t id);  // classify the state, and expand it where runs go on; false on a fault
    bool is_broken(uint32_t id);
    bool show(size_t lane, float* rows, uint8_t* masks);  // false where an expression has no value
    void forget();
    uint8_t move(Lane& lane, int64_t label, double& cost);

    std::vector<uint64_t> starts_;
    size_t words_, costs_;
    Machine machine_;
    RowReader reader_;
    AnyStore store_;
    std::vector<Node> nodes_;
    std::vector<Operator> operators_;
    std::vector<double> probability_, cost_;  // per branch
    std::vector<uint32_t> target_;            // per branch: a node, or none yet
    std::vector<uint64_t> branch_words_;
    std::vector<Lane> lanes_;
    Expansion e_;
};

}  // namespace polvet
