// Episodes that go on while the policy learns; see runs/rollout.h.
#include "runs/rollout.h"

#include <algorithm>

namespace polvet {

namespace {
constexpr uint64_t CURIOSITY = 0x5851F42D4C957F2DULL;
}  // namespace

Rollout::Rollout(std::shared_ptr<const Program> program, std::vector<uint64_t> starts, int32_t fail, int32_t goal, size_t lanes,
                 uint64_t max_steps, uint64_t seed)
    : program_(program),
      starts_(std::move(starts)),
      fail_(fail),
      goal_(goal),
      max_steps_(max_steps),
      seed_(seed),
      words_(program->words),
      machine_(program),
      lanes_(lanes),
      states_(lanes * program->words),
      decided_(lanes * program->words) {
    for (size_t k = 0; k < lanes; ++k) begin_episode(k);
}

void Rollout::begin_episode(size_t lane) {
    lanes_[lane] = {next_episode_++, 0, false, -1};
    const uint64_t pick = below(draw(seed_ ^ CURIOSITY, lanes_[lane].episode, UINT64_MAX).first, starts_.size() / words_);
    std::copy_n(starts_.data() + pick * words_, words_, states_.data() + lane * words_);
}

// The lane's last decision has led here: to the next decision, or to the end of the episode.
void Rollout::arrive(size_t lane, const BoundPolicy& policy, RowReader& reader, const uint8_t* mask, End end, Transitions& out) {
    if (!lanes_[lane].pending) return;
    const size_t width = policy.width(), outputs = policy.label_of_output.size();
    const uint64_t* from = decided_.data() + lane * words_;
    const uint64_t* here = states_.data() + lane * words_;
    out.states.insert(out.states.end(), from, from + words_);
    out.next_states.insert(out.next_states.end(), here, here + words_);
    out.rows.resize(out.rows.size() + width);
    reader.row(from, out.rows.data() + out.rows.size() - width);
    out.next_rows.resize(out.next_rows.size() + width);
    reader.row(here, out.next_rows.data() + out.next_rows.size() - width);
    out.masks.insert(out.masks.end(), decided_masks_.begin() + lane * outputs, decided_masks_.begin() + (lane + 1) * outputs);
    if (mask) out.next_masks.insert(out.next_masks.end(), mask, mask + outputs);
    else out.next_masks.resize(out.next_masks.size() + outputs, 0);
    out.action.push_back(lanes_[lane].action);
    out.end.push_back(end);
    lanes_[lane].pending = false;
}

Transitions Rollout::collect(const BoundPolicy& policy, size_t steps, double epsilon) {
    Transitions out;
    Chooser chooser(policy);
    RowReader reader(policy.inputs);
    Expansion e;
    std::vector<uint32_t> move_end;
    std::vector<size_t> active;
    const size_t outputs = policy.label_of_output.size();
    decided_masks_.resize(lanes_.size() * outputs);
    const auto broke = [&](const uint64_t* state, bool by_policy) {
        out.problems.status = Status::FAULT;
        out.problems.fault = machine_.fault;
        out.problems.policy_broken = by_policy;
        out.problems.faulty.assign(state, state + words_);
        return std::move(out);
    };
    const auto finish = [&](size_t lane, End end) {
        arrive(lane, policy, reader, nullptr, end, out);
        out.episodes.push_back(end);
        out.lengths.push_back(uint32_t(lanes_[lane].step));
        begin_episode(lane);
    };
    for (size_t round = 0; round < steps; ++round) {
        e.clear();
        chooser.clear();
        move_end.clear();
        active.clear();
        for (size_t k = 0; k < lanes_.size(); ++k) {
            const uint64_t* state = states_.data() + k * words_;
            End end = end_of(machine_.ends(fail_, goal_, state));
            if (end == RUNNING && lanes_[k].step >= max_steps_) end = END_LIMIT;
            if (machine_.fault != Fault::NONE) return broke(state, false);
            if (end != RUNNING) {
                finish(k, end);
                continue;
            }  // the new episode moves in the next round
            const size_t first = e.moves.size();
            if (!machine_.expand(state, e)) return broke(state, false);
            active.push_back(k);
            move_end.push_back(uint32_t(e.moves.size()));
            chooser.add(state, e.moves.data() + first, e.moves.data() + e.moves.size());
        }
        chooser.decide();
        for (size_t i = 0; i < active.size(); ++i) {
            const size_t k = active[i];
            Lane& lane = lanes_[k];
            int32_t chosen = chooser.chosen[i];
            if (chosen == BROKEN) return broke(states_.data() + k * words_, true);
            if (chosen == DEADLOCK) {
                finish(k, END_DEADLOCK);
                continue;
            }
            if (const uint8_t* mask = chooser.mask(i)) {
                arrive(k, policy, reader, mask, RUNNING, out);
                std::copy_n(states_.data() + k * words_, words_, decided_.data() + k * words_);
                std::copy_n(mask, outputs, decided_masks_.data() + k * outputs);
                const Draw chance = draw(seed_ ^ CURIOSITY, lane.episode, lane.step);
                lane.action = chosen >= 0 ? policy.output_of_label[size_t(chosen)] : -1;
                if (unit(chance.first) < epsilon) {
                    std::vector<int32_t> open;
                    for (size_t o = 0; o < outputs; ++o)
                        if (!policy.filtered || mask[o]) open.push_back(int32_t(o));
                    if (!open.empty()) {
                        lane.action = open[below(chance.second, open.size())];
                        chosen = mask[lane.action] ? policy.label_of_output[size_t(lane.action)] : STUCK;
                    }
                }
                if (lane.action < 0 && !policy.filtered) {  // stuck: which output it was matters for learning
                    int32_t best = -1;
                    policy.scorer->choose(chooser.row(i), 1, nullptr, &best);
                    lane.action = best;
                }
                lane.pending = lane.action >= 0;
            }
            if (chosen == STUCK) {
                finish(k, END_STUCK);
                continue;
            }
            const Taken taken = take(e, i ? move_end[i - 1] : 0, move_end[i], chosen, draw(seed_, lane.episode, lane.step));
            std::copy_n(e.words.data() + taken.branch * words_, words_, states_.data() + k * words_);
            ++lane.step;
        }
    }
    return out;
}

}  // namespace polvet
