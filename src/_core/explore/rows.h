// Rows of the sparse MDP, written from expansions whose branches have their numbers.
#pragma once
#include <algorithm>
#include <vector>

#include "explore/explore.h"

namespace polvet {

class RowWriter {
public:
    explicit RowWriter(Machine& machine) : machine_(machine), rewards_(machine.program->step_rewards.size()), current_(rewards_) {}

    // Append the row of `state`, whose moves are [move_begin, move_end) of the expansion; false where a reward of the state breaks.
    bool write(const uint64_t* state, const Expansion& e, uint32_t move_begin, uint32_t move_end, const std::vector<uint32_t>& ids,
               Matrix& m) {
        m.rewards.resize(rewards_);
        std::vector<double> resting(rewards_, 0);
        if (rewards_ && move_begin != move_end) {
            for (size_t k = 0; k < rewards_; ++k)
                if (const Piece& reward = machine_.program->state_rewards[k]; reward.entry >= 0) {
                    resting[k] = as_real(machine_.value(reward, state));
                    if (machine_.fault != Fault::NONE) return false;
                }
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
                flush(uniform ? -1 : move.label, m);
                for (size_t k = 0; k < rewards_; ++k) {
                    m.rewards[k].push_back(resting[k] + current_[k]);
                    current_[k] = 0;
                }
            }
        }
        m.choice_start.push_back(m.label.size());
        return true;
    }

private:
    void flush(int32_t label, Matrix& m) {
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

    Machine& machine_;
    size_t rewards_;
    std::vector<double> current_;
    std::vector<std::pair<uint32_t, double>> row_;
};

// Put the rows of `part` after those of `whole`; `part` is empty then, its memory kept.
inline void append_rows(Matrix& whole, Matrix& part) {
    const auto extend = [](auto& long_, auto& short_) {
        long_.insert(long_.end(), short_.begin(), short_.end());
        short_.clear();
    };
    const auto extend_shifted = [](std::vector<uint64_t>& long_, std::vector<uint64_t>& short_) {
        const uint64_t offset = long_.back();
        for (size_t k = 1; k < short_.size(); ++k) long_.push_back(offset + short_[k]);
        short_.resize(1);
    };
    extend_shifted(whole.choice_start, part.choice_start);
    extend_shifted(whole.branch_start, part.branch_start);
    extend(whole.label, part.label);
    extend(whole.target, part.target);
    extend(whole.probability, part.probability);
    whole.rewards.resize(std::max(whole.rewards.size(), part.rewards.size()));
    for (size_t k = 0; k < part.rewards.size(); ++k) extend(whole.rewards[k], part.rewards[k]);
}

}  // namespace polvet
