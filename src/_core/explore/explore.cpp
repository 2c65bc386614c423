// Breadth-first enumeration in batches: a batch of states is expanded first, then all its successors are hashed and their
// places in the index fetched ahead, then they are inserted. Numbers are the same as one by one.
#include "explore/explore.h"

#include <algorithm>

namespace polvet {

AnyStore make_store(uint32_t words) {
    switch (words) {
    case 1: return Store<1>(1);
    case 2: return Store<2>(2);
    case 3: return Store<3>(3);
    case 4: return Store<4>(4);
    default: return Store<0>(words);
    }
}

namespace {

constexpr size_t BATCH_BRANCHES = 256, BATCH_STATES = 64;

struct Row {
    uint32_t state;
    uint32_t move_end;
    bool stopped, stuck = false;
};

class RowWriter {
public:
    RowWriter(Space& space, Machine& machine) : space_(space), machine_(machine), rewards_(machine.program->step_rewards.size()) {
        space.matrix.rewards.resize(rewards_);
        current_.resize(rewards_);
    }

    void write(const uint64_t* state, const Expansion& e, uint32_t move_begin, uint32_t move_end, const std::vector<uint32_t>& ids) {
        Matrix& m = space_.matrix;
        std::vector<double> resting(rewards_, 0);
        if (rewards_ && move_begin != move_end) {
            for (size_t k = 0; k < rewards_; ++k)
                if (const Piece& reward = machine_.program->state_rewards[k]; reward.entry >= 0)
                    resting[k] = as_real(machine_.value(reward, state));
        }
        const bool uniform = machine_.program->uniform && move_end - move_begin > 1;
        const double share = uniform ? 1.0 / (move_end - move_begin) : 1.0;
        std::fill(current_.begin(), current_.end(), 0.0);
        for (uint32_t v = move_begin; v < move_end; ++v) {
            const MoveRecord& move = e.moves[v];
            for (uint32_t b = move.begin; b < move.end; ++b) {
                row_.push_back({ids[b], e.probability[b] * share});
                for (size_t k = 0; k < rewards_; ++k) current_[k] += share * e.probability[b] * e.rewards[b * rewards_ + k];
            }
            if (!uniform || v + 1 == move_end) {
                flush(uniform ? -1 : move.label);
                for (size_t k = 0; k < rewards_; ++k) {
                    m.rewards[k].push_back(resting[k] + current_[k]);
                    current_[k] = 0;
                }
            }
        }
        m.choice_start.push_back(m.label.size());
    }

private:
    void flush(int32_t label) {
        Matrix& m = space_.matrix;
        if (row_.size() > 1) {
            std::sort(row_.begin(), row_.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
            size_t last = 0;
            for (size_t k = 1; k < row_.size(); ++k)
                if (row_[k].first == row_[last].first) row_[last].second += row_[k].second;
                else row_[++last] = row_[k];
            row_.resize(last + 1);
        }
        for (const auto& [id, probability] : row_) {
            m.target.push_back(id);
            m.probability.push_back(probability);
        }
        m.branch_start.push_back(m.target.size());
        m.label.push_back(label);
        row_.clear();
    }

    Space& space_;
    Machine& machine_;
    size_t rewards_;
    std::vector<double> current_;
    std::vector<std::pair<uint32_t, double>> row_;
};

uint64_t labels_in(const Expansion& e, uint32_t begin, uint32_t end) {
    uint64_t count = 0;
    int32_t last = -2;
    for (uint32_t v = begin; v < end; ++v)
        if (e.moves[v].label >= 0 && e.moves[v].label != last) {
            ++count;
            last = e.moves[v].label;
        }
    return count ? count : begin != end;  // only silent operators: one pseudo-action
}

// Drop the moves that the policy does not take; false where a score of the policy is not a number.
bool follow(Space& space, Chooser& chooser, Expansion& e, std::vector<Row>& rows, std::vector<uint32_t>& ends,
            std::vector<uint32_t>* origin) {
    chooser.decide();
    ends.clear();
    for (size_t k = 0; k < rows.size(); ++k) {
        if (chooser.chosen[k] == BROKEN) {
            space.status = Status::FAULT;
            space.faulty = rows[k].state;
            space.policy_broken = true;
            return false;
        }
        rows[k].stuck = chooser.chosen[k] == STUCK;
        space.counts.stuck += rows[k].stuck;
        space.counts.near_ties += !chooser.sure[k];
        ends.push_back(rows[k].move_end);
    }
    keep_chosen(e, ends, chooser.chosen, space.program->words, space.program->step_rewards.size());
    for (size_t k = 0; k < rows.size(); ++k) {
        rows[k].move_end = ends[k];
        if (origin && ends[k]) origin->resize(e.moves[ends[k] - 1].end, rows[k].state);
    }
    return true;
}

template <int W>
void run(Space& space, Store<W>& store, const uint64_t* initial, size_t count, const ExploreOptions& options, Limits& limits) {
    Machine machine(space.program);
    const uint32_t words = store.words();
    if (options.build) machine.want_rewards = !space.program->step_rewards.empty();
    RowWriter writer(space, machine);
    for (size_t k = 0; k < count; ++k) {
        auto [id, fresh] = store.insert(initial + k * words);
        if (fresh) {
            space.initial.push_back(id);
            if (options.parents) space.parent.push_back(id);
        }
    }
    Expansion e;
    std::vector<Row> rows;
    std::vector<uint64_t> hashes;
    std::vector<uint32_t> ids, origin;
    std::unique_ptr<Chooser> chooser;
    std::vector<uint32_t> ends;
    if (options.policy) {
        chooser = std::make_unique<Chooser>(*options.policy);
        chooser->want_sure = true;
    }
    uint64_t until_poll = 0;
    for (size_t head = 0; head < store.size();) {
        if (head >= until_poll) {
            until_poll = head + 2048;
            space.status = limits.poll(store.bytes() + space.matrix.bytes() + space.parent.capacity() * 4, head, store.size());
            if (space.status != Status::DONE) return;
        }
        e.clear();
        rows.clear();
        origin.clear();
        if (chooser) chooser->clear();
        while (head + rows.size() < store.size() && rows.size() < BATCH_STATES && e.branches() < BATCH_BRANCHES) {
            const uint32_t number = uint32_t(head + rows.size());
            const uint64_t* state = store.state(number);
            bool stopped = false;
            for (const uint32_t condition : options.stop_at)
                if (stopped = machine.holds(condition, state); stopped || machine.fault != Fault::NONE) break;
            if (machine.fault != Fault::NONE || (!stopped && !machine.expand(state, e))) {
                space.status = Status::FAULT;
                space.faulty = number;
                space.fault = machine.fault;
                return;
            }
            if (chooser) {
                const size_t first = rows.empty() ? 0 : rows.back().move_end;
                chooser->add(state, e.moves.data() + first, e.moves.data() + e.moves.size());
            }
            rows.push_back({number, uint32_t(e.moves.size()), stopped});
            if (options.parents && !chooser) origin.resize(e.branches(), number);
        }
        if (chooser && !follow(space, *chooser, e, rows, ends, options.parents ? &origin : nullptr)) return;
        const size_t branches = e.branches();
        hashes.resize(branches);
        ids.resize(branches);
        const uint64_t* states = e.words.data();
        for (size_t b = 0; b < branches; ++b) {
            hashes[b] = store.hash(states + b * words);
            store.prefetch(hashes[b]);
        }
        for (size_t b = 0; b < branches; ++b) store.prefetch_state(hashes[b]);
        for (size_t b = 0; b < branches; ++b) {
            auto [id, fresh] = store.insert(states + b * words, hashes[b]);
            ids[b] = id;
            if (fresh && options.parents) space.parent.push_back(origin[b]);
        }
        uint32_t begin = 0;
        for (const Row& row : rows) {
            const uint32_t end = row.move_end;
            space.counts.choices += labels_in(e, begin, end);
            space.counts.moves += end - begin;
            if (begin == end && !row.stopped && !row.stuck) ++space.counts.deadlocks;
            if (options.build) writer.write(store.state(row.state), e, begin, end, ids);
            begin = end;
        }
        space.counts.transitions += branches;
        space.counts.expanded += rows.size();
        head += rows.size();
    }
    space.status = store.size() > limits.states ? Status::STATES : Status::DONE;
}

}  // namespace

void explore(Space& space, const uint64_t* initial, size_t count, const ExploreOptions& options, Limits& limits) {
    std::visit([&](auto& store) { run(space, store, initial, count, options, limits); }, space.store);
}

}  // namespace polvet
