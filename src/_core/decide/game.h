// What the algorithms that decide safety play on: interned states, their actions, the outcomes of each action.
//
// A game is a class with
//   size()              how many states are known; they are numbered from 0 in the order of their arrival
//   known(s)            UNSAFE, SAFE or UNDECIDED; fail states are born UNSAFE, goal states SAFE
//   actions(s)          how many actions s has; the first call expands it (0: a run ends here)
//   outcomes(s, k)      the outcomes of action k as a range for `target`; the first call interns them
//   label(s, k)         what a policy calls action k; SILENT where only the environment moves
// All algorithms see the same game, so that what they cost can be compared. Interning waits until an action is looked at:
// outcomes of actions that nobody tries are neither hashed nor tested for `fail` and `goal`.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <tuple>

#include "decide/board.h"
#include "decide/foreseen.h"
#include "store/limits.h"
#include "store/store.h"
#include "vm/program.h"

namespace polvet {

constexpr int32_t SILENT = -1, ENDED = -2;
constexpr uint32_t NONE = UINT32_MAX;

enum class Order : int32_t { APP, POLICY, RANDOM, LAST };

struct Stop {
    Status status;
};  // thrown when a limit is reached
struct BrokenModel {
    Fault fault;
    std::vector<uint64_t> state;
};  // thrown where the model breaks a rule
struct Outcomes {
    uint32_t begin, end;
};

// One per worker: how far a search may go. `check` is called every few hundred looks.
struct Watch {
    std::function<Status(uint64_t bytes, uint64_t states)> check = [](uint64_t, uint64_t) { return Status::DONE; };
};

inline uint64_t grown(uint64_t seed, uint64_t number) { return mix(seed * 0x9e3779b97f4a7c15ULL + number + 1); }

// The label a policy chooses in a state with these moves.
using Preferred = std::function<int32_t(const uint64_t* state, const std::vector<MoveRecord>& moves)>;

// Shared by both games: rows of actions, flat outcomes, what is known, counters.
class GameBase {
public:
    struct Action {
        int32_t label;
        uint32_t raw_begin, raw_end, begin, end;
    };
    struct Row {
        uint32_t action_begin = NONE, action_end = 0, silent_begin = 0, silent_end = 0;
    };

    size_t size() const { return rows_.size(); }
    Known known(uint32_t s) const { return Known(known_[s]); }
    void learn(uint32_t s, Known what) {
        known_[s] = what;
        if (board) learned.push_back(s);
    }
    bool expanded(uint32_t s) const { return rows_[s].action_begin != NONE; }
    int32_t label(uint32_t s, uint32_t k) const { return actions_[rows_[s].action_begin + k].label; }
    uint32_t target(uint32_t place) const { return targets_[place]; }
    void succeeded(uint32_t s, uint32_t k) {
        if (order == Order::LAST) last_ = label(s, k);
    }

    // Every look at an action's outcomes is counted; limits are asked every 256 looks.
    void look() {
        ++looks;
        if ((looks & 255) == 0) poll();
    }
    void poll() {
        const uint64_t bytes = this->bytes() + (extra_bytes ? extra_bytes() : 0);
        peak = std::max(peak, bytes);
        if (Status status = watch->check(bytes, size()); status != Status::DONE) throw Stop{status};
    }
    virtual size_t bytes() const {
        return rows_.capacity() * sizeof(Row) + actions_.capacity() * sizeof(Action) + targets_.capacity() * 4 + known_.capacity() +
               mark_.capacity() * 4;
    }
    virtual ~GameBase() = default;

    // Try the actions of all undecided states at random from now on, or in the model's order again.
    void shuffle(bool random) {
        order = random ? Order::RANDOM : Order::APP;
        for (uint32_t s = 0; s < rows_.size(); ++s) {
            if (!expanded(s) || known(s) != UNDECIDED) continue;  // what is decided has evidence that counts its actions
            std::sort(actions_.begin() + rows_[s].action_begin, actions_.begin() + rows_[s].action_end,
                      [](const Action& a, const Action& b) { return std::tie(a.raw_begin, a.label) < std::tie(b.raw_begin, b.label); });
            if (random) arrange(s, SILENT);
        }
    }

    Order order = Order::APP;
    uint64_t seed = 0, looks = 0, peak = 0;
    Watch* watch = nullptr;
    Board* board = nullptr;                                 // what other threads proved, too
    std::vector<uint32_t> learned;                          // since it was last published
    std::vector<std::shared_ptr<const Foreseen>> foreseen;  // what smaller games told
    std::function<size_t()> extra_bytes;
    Preferred preferred;  // for Order::POLICY

protected:
    void arrange(uint32_t s, int32_t wanted) {
        Row& row = rows_[s];
        Action* begin = actions_.data() + row.action_begin;
        Action* end = actions_.data() + row.action_end;
        if (order == Order::RANDOM) {
            for (size_t n = end - begin; n > 1; --n) std::swap(begin[n - 1], begin[grown(seed, shuffles_++) % n]);
        } else if (order != Order::APP) {
            for (Action* a = begin; a < end; ++a)
                if (a->label == wanted) {
                    std::rotate(begin, a, a + 1);
                    break;
                }
        }
    }
    void forget_rows() {
        rows_.clear();
        actions_.clear();
        targets_.clear();
        known_.clear();
        mark_.clear();
        learned.clear();
        stamp_ = 0;
        last_ = SILENT;
    }
    void release_rows() {
        forget_rows();
        rows_.shrink_to_fit();
        actions_.shrink_to_fit();
        targets_.shrink_to_fit();
        known_.shrink_to_fit();
        mark_.shrink_to_fit();
    }

    std::vector<Row> rows_;
    std::vector<Action> actions_;
    std::vector<uint32_t> targets_, mark_;
    std::vector<uint8_t> known_;
    uint32_t stamp_ = 0;
    uint64_t shuffles_ = 0;
    int32_t last_ = SILENT;
};

// The game of a compiled network. W: words of a packed state, 0 where only known at run time.
template <int W> class ModelGame : public GameBase {
public:
    ModelGame(std::shared_ptr<const Program> program, int32_t fail, int32_t goal)
        : machine_(program), store_(program->words), fail_(fail), goal_(goal) {}

    uint32_t words() const { return store_.words(); }
    const uint64_t* state(uint32_t s) const { return store_.state(s); }

    uint32_t add(const uint64_t* state) {
        auto [s, fresh] = store_.insert(state);
        if (fresh) {
            rows_.emplace_back();
            mark_.push_back(0);
            known_.push_back(UNDECIDED);
            known_[s] = classify(s, state);
        }
        return s;
    }

    uint32_t actions(uint32_t s) {
        if (rows_[s].action_begin == NONE) expand(s);
        return rows_[s].action_end - rows_[s].action_begin;
    }

    Outcomes outcomes(uint32_t s, uint32_t k) {
        const size_t place = rows_[s].action_begin + k;
        if (actions_[place].begin == NONE) intern(s, place);
        return {actions_[place].begin, actions_[place].end};
    }

    // Whether s is in fail or goal. That a verdict is known says less: it may come from the board.
    bool ends_runs(uint32_t s) {
        if (known(s) == UNDECIDED || expanded(s)) return false;
        const Ends ends = ends_in(s, store_.state(s));
        return ends.fail || ends.goal;
    }

    void forget() {
        store_.clear();
        raw_.clear();
        forget_rows();
    }
    void release() {
        store_ = Store<W>(store_.words());
        std::vector<uint64_t>().swap(raw_);
        release_rows();
    }
    size_t bytes() const override { return GameBase::bytes() + store_.bytes() + raw_.capacity() * 8; }

private:
    Known classify(uint32_t s, const uint64_t* state) {
        const Ends ends = ends_in(s, state);
        if (ends.fail) return UNSAFE;
        if (ends.goal) return SAFE;
        for (const auto& told : foreseen)
            if (const Known known = told->find(state); known != UNDECIDED) return known;
        return board ? board->find(state) : UNDECIDED;
    }
    Ends ends_in(uint32_t s, const uint64_t* state) {
        const Ends ends = machine_.ends(fail_, goal_, state);
        if (machine_.fault != Fault::NONE) broken(s);
        return ends;
    }
    [[noreturn]] void broken(uint32_t s) {
        throw BrokenModel{machine_.fault, std::vector<uint64_t>(store_.state(s), store_.state(s) + words())};
    }

    POLVET_NOINLINE void expand(uint32_t s) {
        expansion_.clear();
        if (!machine_.expand(store_.state(s), expansion_)) broken(s);
        if (expansion_.branches() > MANY_BRANCHES) poll();
        Row& row = rows_[s];
        if (raw_.size() / words() + expansion_.branches() >= NONE) throw Stop{Status::STATES};
        const uint32_t raw = uint32_t(raw_.size() / words());
        raw_.insert(raw_.end(), expansion_.words.begin(), expansion_.words.end());
        row.action_begin = uint32_t(actions_.size());
        for (const MoveRecord& move : expansion_.moves) {  // grouped by label, silent ones last
            if (move.label == SILENT) {
                if (row.silent_end == row.silent_begin) row.silent_begin = raw + move.begin;
                row.silent_end = raw + move.end;
            } else if (actions_.size() > row.action_begin && actions_.back().label == move.label) {
                actions_.back().raw_end = raw + move.end;
            } else {
                actions_.push_back({move.label, raw + move.begin, raw + move.end, NONE, NONE});
            }
        }
        // Where only the environment moves there is one pseudo-action without outcomes of its own.
        if (actions_.size() == row.action_begin && row.silent_end > row.silent_begin) actions_.push_back({SILENT, raw, raw, NONE, NONE});
        row.action_end = uint32_t(actions_.size());
        if (row.action_end - row.action_begin > 1 && order != Order::APP)
            arrange(s, order == Order::POLICY ? preferred(store_.state(s), expansion_.moves) : last_);
    }

    POLVET_NOINLINE void intern(uint32_t s, size_t place) {
        const Action action = actions_[place];
        const uint32_t begin = uint32_t(targets_.size());
        if (++stamp_ == 0) {
            std::fill(mark_.begin(), mark_.end(), 0);
            stamp_ = 1;
        }
        const auto take = [&](uint32_t from, uint32_t to) {
            for (uint32_t n = from; n < to; ++n) {
                const uint32_t t = add(raw_.data() + size_t(n) * words());
                if (mark_[t] != stamp_) {
                    mark_[t] = stamp_;
                    targets_.push_back(t);
                }
            }
        };
        take(action.raw_begin, action.raw_end);
        take(rows_[s].silent_begin, rows_[s].silent_end);
        actions_[place].begin = begin;
        actions_[place].end = uint32_t(targets_.size());
    }

    Machine machine_;
    Store<W> store_;
    int32_t fail_, goal_;
    Expansion expansion_;
    std::vector<uint64_t> raw_;  // packed outcomes as the machine gave them
};

// An explicit game for tests: outcome numbers in arrays, silent outcomes already merged in.
class TableGame : public GameBase {
public:
    struct Table {
        std::vector<uint8_t> born;  // UNDECIDED, UNSAFE (fail) or SAFE (goal), per state
        std::vector<uint32_t> action_start, outcome_start, target;
    };
    explicit TableGame(std::shared_ptr<const Table> table) : table_(std::move(table)) { forget(); }

    uint32_t words() const { return 1; }
    const uint64_t* state(uint32_t s) const { return &numbers_[s]; }
    uint32_t add(const uint64_t* state) { return uint32_t(*state); }
    uint32_t actions(uint32_t s) {
        if (rows_[s].action_begin == NONE) {
            rows_[s].action_begin = uint32_t(actions_.size());
            for (uint32_t a = table_->action_start[s]; a < table_->action_start[s + 1]; ++a)
                actions_.push_back({int32_t(a - table_->action_start[s]), 0, 0, table_->outcome_start[a], table_->outcome_start[a + 1]});
            rows_[s].action_end = uint32_t(actions_.size());
            if (order != Order::APP) arrange(s, order == Order::POLICY ? preferred(state(s), {}) : last_);
        }
        return rows_[s].action_end - rows_[s].action_begin;
    }
    Outcomes outcomes(uint32_t s, uint32_t k) {
        const Action& action = actions_[rows_[s].action_begin + k];
        return {action.begin, action.end};
    }
    bool ends_runs(uint32_t s) const { return table_->born[s] != UNDECIDED; }
    void forget() {
        forget_rows();
        targets_ = table_->target;
        known_ = table_->born;
        rows_.resize(known_.size());
        numbers_.resize(known_.size());
        for (size_t k = 0; k < numbers_.size(); ++k) numbers_[k] = k;
    }
    void release() { forget(); }

private:
    std::shared_ptr<const Table> table_;
    std::vector<uint64_t> numbers_;
};

// One way to decide. `is_unsafe(s)` may use what the game knows and teaches it what it proves, so that with sharing
// later questions start from there; without sharing both are made to forget before each question.
template <class Game> class Algorithm {
public:
    explicit Algorithm(Game& game) : game_(game) {}
    virtual ~Algorithm() = default;
    virtual bool is_unsafe(uint32_t s) = 0;
    virtual void forget() = 0;  // about states that are no longer known
    virtual size_t bytes() const = 0;
    virtual bool cut() const { return false; }  // whether `not unsafe` only holds up to a radius
    uint64_t passes = 0;

protected:
    Game& game_;
};

// Passes over the states that a policy reaches, from the question on, until one of them changes nothing.
template <class Game> class Passes : public Algorithm<Game> {
public:
    using Algorithm<Game>::Algorithm;

    bool is_unsafe(uint32_t start) override {
        Game& game = this->game_;
        if (game.known(start) != UNDECIDED) return game.known(start) == UNSAFE;
        bool changed = true;
        while (changed && game.known(start) != UNSAFE) {
            ++this->passes;
            ++epoch_;
            trail_.clear();
            changed = pass(start);
        }
        if (game.known(start) == UNSAFE) return true;
        // SOUND: the last pass changed nothing, so each visited state kept an action with visited, not unsafe outcomes.
        for (uint32_t s : trail_) game.learn(s, SAFE);
        return false;
    }
    void forget() override {
        seen_.clear();
        epoch_ = 0;
    }
    size_t bytes() const override { return (seen_.capacity() + trail_.capacity()) * 4; }

protected:
    virtual bool pass(uint32_t start) = 0;  // whether it changed anything; visits every state that its policy reaches
    bool visit(uint32_t s) {                // whether the state is undecided and met for the first time in this pass
        if (seen_.size() < this->game_.size()) seen_.resize(this->game_.size(), 0);
        if (this->game_.known(s) != UNDECIDED || seen_[s] == epoch_) return false;
        seen_[s] = epoch_;
        trail_.push_back(s);
        return true;
    }

private:
    std::vector<uint32_t> seen_, trail_;
    uint32_t epoch_ = 0;
};

}  // namespace polvet
