// The order of trials, and one trial: its least extension first, then the best one; see mdp/enlargement.h.
#include "mdp/enlargement.h"

#include <algorithm>
#include <queue>

namespace polvet {

Enlargement::Enlargement(const OptionModel& model, std::vector<uint32_t> initial, const double* minimum, const uint32_t* least,
                         const uint32_t* rank, double bound, uint64_t cap)
    : risk_(model, std::move(initial), rank),
      rejection_(risk_),
      model_(risk_.model),
      minimum_(minimum),
      least_(least),
      bound_(bound),
      cap_(cap) {
    risk_.value.assign(minimum, minimum + model.mdp.states);
}

double Enlargement::reset(const uint8_t* seed) {
    std::copy_n(seed, risk_.permitted.size(), risk_.permitted.begin());
    std::fill(risk_.reached.begin(), risk_.reached.end(), 0);
    risk_.value.assign(minimum_, minimum_ + model_.mdp.states);
    risk_.forget();
    stack_.clear();
    for (const uint32_t s : risk_.initial) reach(s);
    std::vector<uint32_t> order;
    while (!stack_.empty()) {
        const uint32_t s = stack_.back();
        stack_.pop_back();
        order.push_back(s);
        if (model_.ends(s)) continue;
        bool any = false;
        for (uint64_t o = model_.first(s); o < model_.first(s + 1); ++o) any |= risk_.permitted[o] != 0;
        if (!any) risk_.permitted[least_[s]] = 1;
        for (uint64_t o = model_.first(s); o < model_.first(s + 1); ++o)
            if (risk_.permitted[o]) model_.each_target(o, [&](uint32_t t) { reach(t); });
    }
    // Options of states that are not reached are not permitted.
    for (uint32_t s = 0; s < model_.mdp.states; ++s)
        if (!risk_.reached[s])
            for (uint64_t o = model_.first(s); o < model_.first(s + 1); ++o) risk_.permitted[o] = 0;
    for (auto i = order.rbegin(); i != order.rend(); ++i) risk_.push(*i);
    Poll poll(-1);
    risk_.propagate(bound_, 100 * cap_, poll);
    risk_.forget();
    return risk_.initial_value();
}

Enlargement::Additions Enlargement::enlarge(const double* priority, double slack, Poll& poll, uint64_t work) {
    slack_ = slack;
    risk_.settled = std::min(1e-13, 1e-4 * slack / bound_);
    Additions additions;
    using Entry = std::pair<double, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
    const auto offer = [&](uint32_t s) {
        if (model_.ends(s)) return;
        for (uint64_t o = model_.first(s); o < model_.first(s + 1); ++o)
            if (!risk_.permitted[o] && priority[o] < INFINITE) heap.push({priority[o], uint32_t(o)});
    };
    for (uint32_t s = 0; s < model_.mdp.states; ++s)
        if (risk_.reached[s]) offer(s);
    // Many at once while they fit, one by one near the bound. More permitted means higher values, so a group fits exactly where each of its
    // options would have been accepted in turn; a group that does not fit is put back and a smaller one is tried.
    size_t size = 1 + heap.size() / 8;
    std::vector<Entry> group;
    std::vector<uint32_t> options;
    const uint64_t begun = risk_.spent;
    while (!heap.empty()) {
        if (poll.expired() || risk_.spent - begun > work) break;
        group.clear();
        options.clear();
        while (!heap.empty() && group.size() < size) {
            if (const uint32_t o = heap.top().second; !risk_.permitted[o] && !rejection_.excludes(o, bound_)) {
                group.push_back(heap.top());
                options.push_back(o);
            }
            heap.pop();
        }
        if (options.empty()) continue;
        if (options.size() > 1) {
            if (try_group(options, poll)) {
                additions.accepted.push_back(added_);
                for (const uint32_t s : newly_) offer(s);
                size *= 2;
            } else {
                for (const Entry& entry : group) heap.push(entry);
                size = std::max<size_t>(1, options.size() / 4);
            }
            continue;
        }
        switch (try_add(options[0], poll)) {
        case Trial::ACCEPTED:
            additions.accepted.push_back(added_);
            for (const uint32_t s : newly_) offer(s);
            size *= 2;
            break;
        case Trial::REJECTED: break;
        case Trial::BORDERLINE:
        case Trial::HARD: additions.open.push_back(options[0]);
        }
    }
    for (; !heap.empty(); heap.pop())
        if (!risk_.permitted[heap.top().second]) additions.left.push_back(heap.top().second);
    return additions;
}

std::vector<uint32_t> Enlargement::extension(uint32_t o, bool best) {
    if (o >= risk_.permitted.size()) throw std::invalid_argument("no such option");
    Poll poll(-1);
    if (best) {
        open_fresh(o);
        risk_.push(risk_.owner(o));
        risk_.permitted[o] = 1;
        risk_.propagate(bound_ * (1 + 1e-6), cap_, poll);  // a proposal only: greedy options of values that may not have settled
        take_greedy(o);
        risk_.permitted[o] = 0;
        close_fresh();
        risk_.undo(0);
    } else {
        take_least({o});
    }
    std::vector<uint32_t> result = added_;
    drop_added();
    return result;
}

double Enlargement::permit(const std::vector<uint32_t>& options) {
    Poll poll(-1);
    for (const uint32_t o : options) {
        risk_.permitted[o] = 1;
        risk_.push(risk_.owner(o));
    }
    stack_.clear();
    for (const uint32_t o : options)
        if (risk_.reached[risk_.owner(o)]) model_.each_target(o, [&](uint32_t t) { reach(t); });
    while (!stack_.empty()) {
        const uint32_t s = stack_.back();
        stack_.pop_back();
        risk_.push(s);
        for (uint64_t o = model_.first(s); o < model_.first(s + 1); ++o)
            if (risk_.permitted[o]) model_.each_target(o, [&](uint32_t t) { reach(t); });
    }
    risk_.propagate(bound_ * (1 + 1e-6), cap_, poll);
    risk_.forget();
    return risk_.initial_value();
}

void Enlargement::reach(uint32_t s) {
    if (risk_.reached[s]) return;
    risk_.reached[s] = 1;
    stack_.push_back(s);
}

// Permit the options, and for every state they make reachable the one that `option_of_state` names.
template <class F> void Enlargement::take(const std::vector<uint32_t>& options, F&& option_of_state) {
    added_ = options;
    newly_.clear();
    stack_.clear();
    for (const uint32_t o : options) {
        risk_.permitted[o] = 1;
        model_.each_target(o, [&](uint32_t t) { reach(t); });
    }
    while (!stack_.empty()) {
        const uint32_t s = stack_.back();
        stack_.pop_back();
        newly_.push_back(s);
        if (model_.ends(s)) continue;
        const uint32_t chosen = option_of_state(s);
        risk_.permitted[chosen] = 1;
        added_.push_back(chosen);
        model_.each_target(chosen, [&](uint32_t t) { reach(t); });
    }
}

void Enlargement::take_least(const std::vector<uint32_t>& options) {
    take(options, [&](uint32_t s) { return least_[s]; });
}

void Enlargement::take_greedy(uint32_t o) {
    take({o}, [&](uint32_t s) {
        // Any option of least worth will do: the values are a pre-fixed point of the scheduler that takes it.
        uint32_t best = uint32_t(model_.first(s));
        double low = INFINITE;
        for (uint64_t p = model_.first(s); p < model_.first(s + 1); ++p)
            if (const double x = risk_.worth(p); x < low) low = x, best = uint32_t(p);
        return best;
    });
}

void Enlargement::drop_added() {
    for (const uint32_t o : added_) risk_.permitted[o] = 0;
    for (const uint32_t s : newly_) risk_.reached[s] = 0;
}

// Every state that the option may lead to and that is not reached yet becomes a state where the least option counts.
void Enlargement::open_fresh(uint32_t o) {
    opened_.clear();
    const auto visit = [&](uint32_t t) {
        if (risk_.reached[t] || risk_.fresh[t]) return;
        risk_.fresh[t] = 1;
        opened_.push_back(t);
    };
    model_.each_target(o, visit);
    for (size_t i = 0; i < opened_.size(); ++i)
        for (uint64_t p = model_.first(opened_[i]); p < model_.first(opened_[i] + 1); ++p) model_.each_target(p, visit);
    for (const uint32_t s : opened_) risk_.push(s);
}

void Enlargement::close_fresh() {
    for (const uint32_t s : opened_) risk_.fresh[s] = 0;
    opened_.clear();
}

Enlargement::Trial Enlargement::judge() const {
    return risk_.initial_value() <= std::max(bound_ - slack_, before_) ? Trial::ACCEPTED : Trial::BORDERLINE;
}

// SOUND: a rejection is final. The more is permitted, the higher every value; states not reached yet are worth at least their minimum now, and at
// least that when they are reached and take some of their options.
Enlargement::Trial Enlargement::try_add(uint32_t o, Poll& poll) {
    before_ = risk_.initial_value();
    added_.clear();
    newly_.clear();
    // First with every state that is not reached at its minimum: no choice there can make it less.
    risk_.permitted[o] = 1;
    risk_.push(risk_.owner(o));
    const Flow lower = risk_.propagate(bound_, cap_, poll);
    bool leads_out = false;
    model_.each_target(o, [&](uint32_t t) { leads_out |= !risk_.reached[t]; });
    if (lower != Flow::SETTLED || !leads_out) {
        const Trial result = lower == Flow::ABOVE ? Trial::REJECTED : lower == Flow::CAP ? Trial::HARD : judge();
        return finish(o, result);
    }
    const size_t mark = risk_.mark();
    take_least({o});
    for (const uint32_t s : newly_) risk_.push(s);
    risk_.push(risk_.owner(o));
    const Flow simple = risk_.propagate(bound_, cap_, poll);
    if (simple == Flow::SETTLED && judge() == Trial::ACCEPTED) return finish(o, Trial::ACCEPTED);
    if (simple == Flow::CAP) {
        drop_added();
        return finish(o, Trial::HARD);
    }
    risk_.undo(mark);
    drop_added();
    risk_.permitted[o] = 1;
    open_fresh(o);
    risk_.push(risk_.owner(o));
    const Flow game = risk_.propagate(bound_, cap_, poll);
    if (game != Flow::SETTLED) {
        close_fresh();
        added_.clear();
        newly_.clear();
        return finish(o, game == Flow::ABOVE ? Trial::REJECTED : Trial::HARD);
    }
    take_greedy(o);
    const Trial result = judge();
    const std::vector<uint32_t> opened = opened_;
    close_fresh();
    if (result == Trial::ACCEPTED)
        for (const uint32_t s : opened)
            if (!risk_.reached[s]) risk_.value[s] = minimum_[s];
    if (result != Trial::ACCEPTED) drop_added();
    return finish(o, result);
}

// Permit all the options; states that become reachable take their least risky one. Where the initial value does not stay below the bound, nothing changes.
bool Enlargement::try_group(const std::vector<uint32_t>& options, Poll& poll) {
    before_ = risk_.initial_value();
    take_least(options);
    for (const uint32_t o : options) risk_.push(risk_.owner(o));
    for (const uint32_t s : newly_) risk_.push(s);
    if (risk_.propagate(bound_, 10 * cap_, poll) == Flow::SETTLED && judge() == Trial::ACCEPTED) {
        risk_.forget();
        return true;
    }
    drop_added();
    risk_.undo(0);
    return false;
}

Enlargement::Trial Enlargement::finish(uint32_t o, Trial result) {
    if (result == Trial::ACCEPTED) {
        if (added_.empty()) added_.assign(1, o);
        risk_.forget();
    } else {
        risk_.permitted[o] = 0;
        risk_.undo(0);
    }
    return result;
}

}  // namespace polvet
