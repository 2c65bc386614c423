// Deciding many states: solvers that answer one question after the other, and a batch over all cores.
#pragma once

#include "decide/game.h"

namespace polvet {

struct Answer {
    Known known = UNDECIDED;
    Status status = Status::DONE;  // why it is undecided; DONE with UNDECIDED: the radius was too small
    uint64_t looks = 0, nanoseconds = 0, passes = 0;
};

struct SafePolicy {
    std::vector<uint64_t> states;
    std::vector<int32_t> labels;
};  // closed; ENDED where runs end
struct UnsafeRank {  // witnesses have smaller indices
    std::vector<uint64_t> states;
    std::vector<uint32_t> rank, pair_start{0}, witness;
    std::vector<int32_t> label;
};
struct Outlook {  // all actions of some states, by label; none where runs end
    std::vector<uint64_t> outcomes;
    std::vector<uint32_t> action_start{0}, outcome_start{0};
    std::vector<int32_t> label;
};

struct SolverOptions {
    std::string algorithm = "lazy";
    Order order = Order::APP;
    uint64_t seed = 0;
    bool share = true;
    uint32_t radius = NONE;
    uint64_t patience = 32768;  // looks before `lazy` asks a question in another order
    Preferred preferred;
    std::shared_ptr<Board> board;  // where several solvers of a model tell each other what they proved
};

struct Batch {
    std::vector<Answer> answers;
    Status status = Status::DONE;
    std::vector<double> busy{};  // CPU seconds of each thread
};
class Party;

// One worker's game and algorithm behind a plain face. With sharing it remembers what it proved.
class Solver {
public:
    virtual ~Solver() = default;
    virtual Answer decide(const uint64_t* state, Watch& watch) = 0;
    // Answer the questions that `next` gives out, together with the other solvers of a party (decide/together.h).
    virtual bool can_join() const = 0;
    virtual Status join(Party& party, unsigned me, const std::function<const uint64_t*(size_t&)>& next, Watch& watch, Batch& batch) = 0;
    virtual void restart() = 0;  // forget everything
    // Evidence needs the algorithm `lazy` with sharing. Limits are thrown as Stop.
    virtual SafePolicy safe_policy(const uint64_t* states, size_t count, Watch& watch) = 0;
    virtual UnsafeRank unsafe_rank(const uint64_t* states, size_t count, Watch& watch) = 0;
    virtual Outlook outlook(const uint64_t* states, size_t count, Watch& watch) = 0;
    virtual void foresee(std::shared_ptr<const Foreseen> told) = 0;  // from now on; ends the making of evidence
    virtual uint64_t peak() const = 0;
    virtual uint64_t held() const = 0;  // bytes, without those of the board
    virtual uint64_t known_states() const = 0;
};

std::unique_ptr<Solver> make_solver(std::shared_ptr<const Program> program, int32_t fail, int32_t goal, const SolverOptions& options);
std::unique_ptr<Solver> make_solver(std::shared_ptr<const TableGame::Table> table, const SolverOptions& options);

// Answers to `count` states, by as many threads as there are solvers; called without the GIL. Where solvers can join, they
// explore together; what does not fit into memory that way is asked question by question.
// A model that breaks a rule throws BrokenModel. `status` tells what stopped the batch as a whole.
Batch decide_all(std::vector<std::unique_ptr<Solver>>& solvers, Board* board, const uint64_t* states, size_t count, uint32_t words,
                 Limits& limits);

}  // namespace polvet
