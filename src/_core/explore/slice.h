// One thread's share of a breadth-first search: some states next to each other, what they lead to, and which of that is known.
#pragma once
#include <memory>
#include <vector>

#include "explore/rows.h"

namespace polvet {

template <class States> class Slice {
public:
    Slice(const Space& space, const States& store, const ExploreOptions& options)
        : store_(store), options_(options), machine_(space.program), writer_(machine_), room_(store.words()) {
        if (options.build) machine_.want_rewards = !space.program->step_rewards.empty();
        if (options.policy) {
            chooser_ = std::make_unique<Chooser>(*options.policy);
            chooser_->want_sure = true;
        }
    }

    // Expand the states from `begin` on, before `end`, until there are so many branches; false where the model or the policy breaks.
    bool expand(size_t begin, size_t end, size_t branches) {
        first_ = begin;
        before_ = counts;
        clear();
        if (chooser_) chooser_->clear();
        for (size_t number = begin; number < end && e_.branches() < branches; ++number) {
            const uint64_t* state = store_.state(number, room_.data());
            bool stopped = false;
            machine_.fault = Fault::NONE;
            for (const uint32_t condition : options_.stop_at)
                if (stopped = machine_.holds(condition, state); stopped || machine_.fault != Fault::NONE) break;
            if (machine_.fault != Fault::NONE || (!stopped && !machine_.expand(state, e_))) return broke(number, machine_.fault);
            if (chooser_) {
                const size_t first = rows_.empty() ? 0 : rows_.back().move_end;
                chooser_->add(state, e_.moves.data() + first, e_.moves.data() + e_.moves.size());
            }
            rows_.push_back({uint32_t(number), uint32_t(e_.moves.size()), stopped});
            if (options_.parents && !chooser_) origin_.resize(e_.branches(), uint32_t(number));
        }
        if (chooser_ && !follow()) return false;
        tally();
        return true;
    }

    // Undo the last expansion.
    void forget() {
        clear();
        counts = before_;
        faulty = -1;
    }

    // Hash all branches, and fetch their places in the index ahead.
    void hash() {
        const size_t count = e_.branches();
        hashes_.resize(count);
        ids.resize(count);
        for (size_t b = 0; b < count; ++b) {
            hashes_[b] = store_.hash(branch(b));
            store_.prefetch(hashes_[b]);
        }
        for (size_t b = 0; b < count; ++b) store_.prefetch_state(hashes_[b]);
    }

    // Give the branches that the store has their numbers; the others are `unknown`.
    void look_up() {
        constexpr size_t GROUP = 256;
        const size_t count = e_.branches();
        hashes_.resize(count);
        ids.resize(count);
        for (size_t begin = 0; begin < count; begin += GROUP) {
            const size_t end = std::min(begin + GROUP, count);
            for (size_t b = begin; b < end; ++b) {
                hashes_[b] = store_.hash(branch(b));
                store_.prefetch(hashes_[b]);
            }
            for (size_t b = begin; b < end; ++b) store_.prefetch_state(hashes_[b]);
            for (size_t b = begin; b < end; ++b) {
                const int64_t number = store_.find(branch(b), hashes_[b]);
                ids[b] = uint32_t(number);
                if (number < 0) unknown.push_back(uint32_t(b));
            }
        }
    }

    // False where the model breaks.
    bool write_rows(Matrix& matrix) {
        uint32_t begin = 0;
        for (const Row& row : rows_) {
            const uint64_t* state = store_.state(row.state, room_.data());
            if (!writer_.write(state, e_, begin, row.move_end, ids, matrix)) return broke(row.state, machine_.fault);
            begin = row.move_end;
        }
        return true;
    }

    size_t first() const { return first_; }
    size_t size() const { return rows_.size(); }
    size_t branches() const { return e_.branches(); }
    const uint64_t* branch(size_t b) const { return e_.words.data() + b * store_.words(); }
    uint64_t hash_of(size_t b) const { return hashes_[b]; }
    uint32_t origin(size_t b) const { return origin_[b]; }  // the state it leads from; only where parents are asked for

    std::vector<uint32_t> ids;      // per branch: the state it leads to
    std::vector<uint32_t> unknown;  // branches
    Counts counts;                  // of all that was expanded here
    int64_t faulty = -1;            // the state in which the model or the policy broke
    Fault fault = Fault::NONE;
    bool policy_broken = false;

private:
    struct Row {
        uint32_t state, move_end;
        bool stopped, stuck = false;
    };

    void clear() {
        e_.clear();
        rows_.clear();
        origin_.clear();
        ids.clear();
        unknown.clear();
    }

    bool broke(size_t number, Fault why, bool policy = false) {
        faulty = int64_t(number);
        fault = why;
        policy_broken = policy;
        return false;
    }

    // Drop the moves that the policy does not take.
    bool follow() {
        chooser_->decide();
        ends_.clear();
        for (size_t k = 0; k < rows_.size(); ++k) {
            if (chooser_->chosen[k] == BROKEN) return broke(rows_[k].state, Fault::NONE, true);
            rows_[k].stuck = chooser_->chosen[k] == STUCK;
            counts.stuck += rows_[k].stuck;
            counts.near_ties += !chooser_->sure[k];
            ends_.push_back(rows_[k].move_end);
        }
        keep_chosen(e_, ends_, chooser_->chosen, store_.words(), machine_.program->step_rewards.size());
        for (size_t k = 0; k < rows_.size(); ++k) {
            rows_[k].move_end = ends_[k];
            if (options_.parents && ends_[k]) origin_.resize(e_.moves[ends_[k] - 1].end, rows_[k].state);
        }
        return true;
    }

    void tally() {
        uint32_t begin = 0;
        for (const Row& row : rows_) {
            counts.choices += labels_in(begin, row.move_end);
            counts.deadlocks += begin == row.move_end && !row.stopped && !row.stuck;
            begin = row.move_end;
        }
        counts.moves += begin;
        counts.transitions += e_.branches();
        counts.expanded += rows_.size();
    }

    uint64_t labels_in(uint32_t begin, uint32_t end) const {
        uint64_t count = 0;
        int32_t last = -2;
        for (uint32_t v = begin; v < end; ++v)
            if (e_.moves[v].label >= 0 && e_.moves[v].label != last) {
                ++count;
                last = e_.moves[v].label;
            }
        return count ? count : begin != end;  // only silent operators: one pseudo-action
    }

    const States& store_;
    const ExploreOptions& options_;
    Machine machine_;
    RowWriter writer_;
    std::unique_ptr<Chooser> chooser_;
    Expansion e_;
    std::vector<Row> rows_;
    std::vector<uint64_t> hashes_, room_;
    std::vector<uint32_t> origin_, ends_;
    size_t first_ = 0;  // the state with which the last expansion began
    Counts before_;     // that expansion
};

}  // namespace polvet
