// Lanes of episodes that somebody else steers; see runs/lanes.h.
#include "runs/lanes.h"

#include <algorithm>

#include "runs/walk.h"

namespace polvet {

namespace {
constexpr uint64_t STARTING = 0x9E3779B97F4A7C15ULL;
}  // namespace

Lanes::Lanes(std::shared_ptr<const Program> program_, std::vector<uint64_t> starts, size_t lanes, const LaneOptions& options_)
    : program(program_),
      options(options_),
      starts_(std::move(starts)),
      words_(program_->words),
      costs_(program_->step_rewards.size()),
      machine_(program_),
      reader_(options.inputs),
      store_(make_store(program_->words)),
      lanes_(lanes) {
    machine_.want_rewards = costs_ != 0;
}

void Lanes::seed(size_t lane, uint64_t seed) {
    lanes_[lane].seed = seed;
    lanes_[lane].episode = UINT64_MAX;  // the next episode is the first
}

uint32_t Lanes::find(const uint64_t* words) {
    const auto [id, fresh] = std::visit([&](auto& s) { return s.insert(words); }, store_);
    if (fresh) nodes_.emplace_back();
    return id;
}

bool Lanes::is_broken(uint32_t id) {
    fault = machine_.fault;
    if (fault == Fault::NONE) return false;
    faulty.assign(state(id), state(id) + words_);
    machine_.fault = Fault::NONE;
    return true;
}

bool Lanes::open(uint32_t id) {
    Node& node = nodes_[id];
    if (node.expanded) return true;
    node.kind = end_of(machine_.ends(options.fail, options.goal, state(id)));
    if (is_broken(id)) return false;
    node.expanded = true;
    if (node.kind != RUNNING) return true;
    e_.clear();
    if (!machine_.expand(state(id), e_)) return node.expanded = !is_broken(id);
    node.begin = node.silent = uint32_t(operators_.size());
    for (const MoveRecord& move : e_.moves) {
        const uint32_t begin = uint32_t(target_.size() + move.begin);
        operators_.push_back({move.label, begin, begin + (move.end - move.begin)});
        if (move.label >= 0) node.silent = uint32_t(operators_.size());
    }
    node.end = uint32_t(operators_.size());
    probability_.insert(probability_.end(), e_.probability.begin(), e_.probability.end());
    branch_words_.insert(branch_words_.end(), e_.words.begin(), e_.words.end());
    for (size_t b = 0; b < e_.branches(); ++b) cost_.push_back(costs_ ? e_.rewards[b * costs_] : 0);
    target_.resize(target_.size() + e_.branches(), NOT_TAKEN);
    return true;
}

void Lanes::forget() {
    const std::vector<uint64_t> kept = states();
    std::visit([](auto& s) { s.clear(); }, store_);
    nodes_.clear();
    operators_.clear();
    probability_.clear();
    cost_.clear();
    target_.clear();
    branch_words_.clear();
    for (size_t k = 0; k < lanes_.size(); ++k) lanes_[k].node = find(kept.data() + k * words_);
}

std::vector<uint64_t> Lanes::states() const {
    std::vector<uint64_t> found;
    for (const Lane& lane : lanes_)
        if (nodes_.empty()) found.resize(found.size() + words_);
        else found.insert(found.end(), state(lane.node), state(lane.node) + words_);
    return found;
}

bool Lanes::show(size_t lane, float* rows, uint8_t* masks) {
    const uint64_t* words = state(lanes_[lane].node);
    fault = reader_.row(words, rows + lane * options.inputs.columns.size());
    if (fault != Fault::NONE) {
        faulty.assign(words, words + words_);
        return false;
    }
    if (!masks) return true;
    const Node& node = nodes_[lanes_[lane].node];
    uint8_t* mask = masks + lane * options.labels;
    // Where no label is applicable, all are shown: a mask of nothing is no mask.
    std::fill_n(mask, options.labels, uint8_t(node.begin == node.silent));
    for (uint32_t o = node.begin; o < node.silent; ++o) mask[operators_[o].label] = 1;
    return true;
}

bool Lanes::restart(size_t k, const Shown& out) {
    Lane& lane = lanes_[k];
    lane.episode += 1;
    lane.step = 0;
    lane.over = false;
    const uint64_t pick = below(draw(lane.seed ^ STARTING, lane.episode, UINT64_MAX).first, starts_.size() / words_);
    lane.node = find(starts_.data() + pick * words_);
    if (!open(lane.node)) return false;
    return show(k, out.rows, out.masks);
}

// Take the label; RUNNING where it could be taken, else how the episode ends where it is.
uint8_t Lanes::move(Lane& lane, int64_t label, double& cost) {
    const Node& node = nodes_[lane.node];
    if (node.kind != RUNNING) return node.kind;  // the episode began there
    if (node.begin == node.end) return END_DEADLOCK;
    uint32_t first = node.begin, after = node.begin;
    if (node.begin != node.silent) {
        const auto begin = operators_.begin() + node.begin, end = operators_.begin() + node.silent;
        const auto low = std::lower_bound(begin, end, label, [](const Operator& one, int64_t l) { return one.label < l; });
        first = after = uint32_t(low - operators_.begin());
        while (after < node.silent && operators_[after].label == label) ++after;
        if (first == after) return END_STUCK;
    }
    const Draw chance = draw(lane.seed, lane.episode, lane.step);
    const uint32_t own = after - first, pick = uint32_t(below(chance.first, own + (node.end - node.silent)));
    const Operator& chosen = operators_[pick < own ? first + pick : node.silent + (pick - own)];
    const uint32_t branch = draw_branch(probability_.data(), chosen.begin, chosen.end, unit(chance.second));
    cost = cost_[branch];
    if (target_[branch] == NOT_TAKEN) {
        const uint32_t id = find(branch_words_.data() + size_t(branch) * words_);
        target_[branch] = id;
    }
    lane.node = target_[branch];
    lane.step += 1;
    return RUNNING;
}

bool Lanes::step(const int64_t* labels, const Shown& out) {
    if (nodes_.size() > MOST_NODES || branch_words_.size() > MOST_WORDS) forget();
    for (size_t k = 0; k < lanes_.size(); ++k) {
        Lane& lane = lanes_[k];
        out.cost[k] = 0;
        out.end[k] = RUNNING;
        if (lane.over) {
            if (!restart(k, out)) return false;
            continue;
        }
        if (!open(lane.node)) return false;
        uint8_t end = move(lane, labels[k], out.cost[k]);
        if (!open(lane.node)) return false;
        if (end == RUNNING) end = nodes_[lane.node].kind;
        if (end == RUNNING && lane.step >= options.max_steps) end = END_LIMIT;
        out.end[k] = end;
        if (end != RUNNING && options.at_once) {
            if (!show(k, out.last, nullptr) || !restart(k, out)) return false;
            continue;
        }
        lane.over = end != RUNNING;
        if (!show(k, out.rows, out.masks)) return false;
    }
    return true;
}

}  // namespace polvet
