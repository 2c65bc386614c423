// Permissive schedulers by incremental enlargement: add one option after the other while the risk stays below the bound.
//
// Source   Junges, Jansen, Dehnert, Topcu & Katoen, Safety-Constrained Reinforcement Learning for MDPs, TACAS 2016: `value` are the variables
//          p_s of constraint 4, `permitted` the variables y_s,a; the order of the additions takes the place of the SMT search.
// Differs  an *option* is what a policy may choose (a label): one or several choices of the MDP among which the environment picks. Values grow
//          from below over predecessors with an undo log; an addition is undone as soon as an initial value exceeds the bound.
// Cost     each option is tried once (a rejection is final, see `try_add`); a trial costs what its increase touches, at most `cap` branches. First
//          it rushes: increases go first that count most at the initial states, so that a rejection seldom looks at more than a few paths.
// Limits   doubles: rejections are proofs (rounded down), acceptances are proposals that Python checks exactly.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "mdp/bounded.h"

namespace nb = nanobind;

namespace polvet::mdp {
namespace {

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr double MARGIN = 1e-9;
constexpr double TIE = 1e-14;          // choices so near (relatively) to the worst one are followed, too
constexpr u64 RUSH = 4'096;            // branches, and a share of all
constexpr int SWEEPS = 30, TIMES = 3;  // evaluations of one state in one rush: cycles must not keep it

enum class Trial { ACCEPTED, REJECTED, BORDERLINE, HARD };

class Enlargement {
public:
    Enlargement(In<u64> choice_start, In<u64> branch_start, In<u32> target, In<double> probability, In<u64> option_start,
                In<u64> option_choice, In<u8> fail, In<u32> initial, In<double> minimum, In<u32> least, In<u32> rank, double bound, u64 cap)
        : arrays_{choice_start, branch_start},
          target_(target),
          probability_(probability),
          option_start_(option_start),
          option_choice_(option_choice),
          fail_(fail),
          initial_(initial),
          minimum_(minimum),
          least_(least),
          rank_(rank),
          m_{static_cast<u32>(fail.size()), choice_start.data(), branch_start.data(), target.data(), probability.data()},
          back_(m_),
          bound_(bound),
          cap_(cap),
          rush_(RUSH + target.size() / 16) {
        const u64 options = option_choice.size() - 1, choices = branch_start.size() - 1;
        if (option_start.size() != m_.states + u64{1} || choice_start.size() != m_.states + u64{1} || minimum.size() != m_.states ||
            least.size() != m_.states || rank.size() != m_.states || option_start.data()[m_.states] != options ||
            option_choice.data()[options] != choices)
            throw std::invalid_argument("the arrays of the world do not fit together");
        option_of_.resize(choices);
        for (u64 o = 0; o < options; ++o)
            for (u64 c = option_choice.data()[o]; c < option_choice.data()[o + 1]; ++c) option_of_[c] = static_cast<u32>(o);
        permitted_.assign(options, 0);
        reached_.assign(m_.states, 0);
        fresh_.assign(m_.states, 0);
        queued_.assign(m_.states, 0);
        stamp_.assign(m_.states, 0);
        is_initial_.assign(m_.states, 0);
        for (u64 i = 0; i < initial.size(); ++i) is_initial_[initial.data()[i]] = 1;
        value_.assign(minimum.data(), minimum.data() + m_.states);
        hope_.assign(m_.states, 0.0);
        times_.assign(m_.states, 0);
        weigh();
    }

    // Start again from the given options; states reached without a permitted option take their least risky one.
    // Returns the initial value; it lies above the bound where the seed is not safe.
    double reset(In<u8> seed) {
        if (seed.size() != permitted_.size()) throw std::invalid_argument("the seed needs one entry per option");
        nb::gil_scoped_release release;
        std::copy(seed.data(), seed.data() + seed.size(), permitted_.begin());
        std::fill(reached_.begin(), reached_.end(), 0);
        value_.assign(minimum_.data(), minimum_.data() + m_.states);
        forget();
        stack_.clear();
        for (u64 i = 0; i < initial_.size(); ++i) reach(initial_.data()[i]);
        std::vector<u32> order;
        while (!stack_.empty()) {
            const u32 s = stack_.back();
            stack_.pop_back();
            order.push_back(s);
            if (ends(s)) continue;
            bool any = false;
            for (u64 o = first(s); o < first(s + 1); ++o) any |= permitted_[o] != 0;
            if (!any) permitted_[least_.data()[s]] = 1;
            for (u64 o = first(s); o < first(s + 1); ++o)
                if (permitted_[o]) each_target(o, [&](u32 t) { reach(t); });
        }
        // Options of states that are not reached are not permitted.
        for (u32 s = 0; s < m_.states; ++s)
            if (!reached_[s])
                for (u64 o = first(s); o < first(s + 1); ++o) permitted_[o] = 0;
        for (auto i = order.rbegin(); i != order.rend(); ++i) push(*i);
        Poll poll(-1);
        propagate(bound_, 100 * cap_, poll);
        forget();
        return initial_value();
    }

    // Try every option that is not permitted, by ascending priority (infinite: not at all); states that become reachable bring theirs. Lists what was accepted, in order and with
    // the options their new states take, one list per addition; what needs an exact test, since it comes nearer to the bound than `slack`; and what was not tried
    // before time or work (branches looked at) were up.
    std::tuple<std::vector<std::vector<u32>>, std::vector<u32>, std::vector<u32>> enlarge(In<double> priority, double slack, double seconds,
                                                                                          u64 work) {
        slack_ = slack;
        settled_ = std::min(1e-13, 1e-4 * slack / bound_);
        if (priority.size() != permitted_.size()) throw std::invalid_argument("priority needs one entry per option");
        std::vector<std::vector<u32>> accepted;
        std::vector<u32> open;
        Poll poll(seconds);
        nb::gil_scoped_release release;
        using Entry = std::pair<double, u32>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
        const auto offer = [&](u32 s) {
            if (ends(s)) return;
            for (u64 o = first(s); o < first(s + 1); ++o)
                if (!permitted_[o] && priority.data()[o] < INFINITE) heap.push({priority.data()[o], static_cast<u32>(o)});
        };
        for (u32 s = 0; s < m_.states; ++s)
            if (reached_[s]) offer(s);
        // Many at once while they fit, one by one near the bound. More permitted means higher values, so a group fits exactly where each of its
        // options would have been accepted in turn; a group that does not fit is put back and a smaller one is tried.
        std::size_t size = 1 + heap.size() / 8;
        std::vector<Entry> group;
        std::vector<u32> options;
        const u64 begun = spent_;
        while (!heap.empty()) {
            if (poll.expired() || spent_ - begun > work) break;
            group.clear();
            options.clear();
            while (!heap.empty() && group.size() < size) {
                if (const u32 o = heap.top().second; !permitted_[o] && !surely_too_much(o)) {
                    group.push_back(heap.top());
                    options.push_back(o);
                }
                heap.pop();
            }
            if (options.empty()) continue;
            if (options.size() > 1) {
                if (try_group(options, poll)) {
                    accepted.push_back(added_);
                    for (const u32 s : newly_) offer(s);
                    size *= 2;
                } else {
                    for (const Entry& entry : group) heap.push(entry);
                    size = std::max<std::size_t>(1, options.size() / 4);
                }
                continue;
            }
            switch (try_add(options[0], poll)) {
            case Trial::ACCEPTED:
                accepted.push_back(added_);
                for (const u32 s : newly_) offer(s);
                size *= 2;
                break;
            case Trial::REJECTED: break;
            case Trial::BORDERLINE:
            case Trial::HARD: open.push_back(options[0]);
            }
        }
        std::vector<u32> left;
        for (; !heap.empty(); heap.pop())
            if (!permitted_[heap.top().second]) left.push_back(heap.top().second);
        return {accepted, open, left};
    }

    // What would come with the option: itself, and one option for every state that it makes reachable. `best`: chosen to keep the risk least given what is
    // permitted now, else the least risky ones of the whole model.
    std::vector<u32> extension(u32 o, bool best) {
        if (o >= permitted_.size()) throw std::invalid_argument("no such option");
        nb::gil_scoped_release release;
        Poll poll(-1);
        if (best) {
            open_fresh(o);
            push(owner(o));
            permitted_[o] = 1;
            propagate(bound_ * (1 + 1e-6), cap_, poll);  // a proposal only: greedy options of values that may not have settled
            take_greedy(o);
            permitted_[o] = 0;
            close_fresh();
            undo(0);
        } else {
            take_least(o);
        }
        std::vector<u32> result = added_;
        drop_added();
        return result;
    }

    // Permit the options, whatever the risk, and bring the values up to date; lists the options that became open.
    double permit(const std::vector<u32>& options) {
        nb::gil_scoped_release release;
        Poll poll(-1);
        for (const u32 o : options) {
            permitted_[o] = 1;
            push(owner(o));
        }
        stack_.clear();
        for (const u32 o : options)
            if (reached_[owner(o)]) each_target(o, [&](u32 t) { reach(t); });
        while (!stack_.empty()) {
            const u32 s = stack_.back();
            stack_.pop_back();
            push(s);
            for (u64 o = first(s); o < first(s + 1); ++o)
                if (permitted_[o]) each_target(o, [&](u32 t) { reach(t); });
        }
        propagate(bound_ * (1 + 1e-6), cap_, poll);
        forget();
        return initial_value();
    }

    void read(Out<u8> permitted, Out<u8> reached, Out<double> value) const {
        if (permitted.size() != permitted_.size() || reached.size() != reached_.size() || value.size() != value_.size())
            throw std::invalid_argument("the arrays have the wrong size");
        std::copy(permitted_.begin(), permitted_.end(), permitted.data());
        std::copy(reached_.begin(), reached_.end(), reached.data());
        std::copy(value_.begin(), value_.end(), value.data());
    }
    u64 work() const { return spent_; }
    u64 count() const { return static_cast<u64>(std::count(permitted_.begin(), permitted_.end(), u8{1})); }

private:
    struct Waiting {
        u32 rank;
        u64 turn;
        u32 state;
    };
    static bool later(const Waiting& a, const Waiting& b) { return a.rank != b.rank ? a.rank > b.rank : a.turn > b.turn; }
    u64 first(u32 s) const { return option_start_.data()[s]; }
    bool ends(u32 s) const { return first(s) == first(s + 1); }
    u32 owner(u32 o) const { return back_.owner[option_choice_.data()[o]]; }
    template <class F> void each_target(u64 o, F&& f) const {
        for (u64 b = m_.branch_start[option_choice_.data()[o]]; b < m_.branch_start[option_choice_.data()[o + 1]]; ++b) f(m_.target[b]);
    }
    void reach(u32 s) {
        if (reached_[s]) return;
        reached_[s] = 1;
        stack_.push_back(s);
    }
    void push(u32 s) {
        if (queued_[s]) return;
        queued_[s] = 1;
        queue_.push_back({rank_.data()[s], turn_++, s});
        std::push_heap(queue_.begin(), queue_.end(), later);
    }
    u32 pop() {
        const u32 s = queue_.front().state;
        std::pop_heap(queue_.begin(), queue_.end(), later);
        queue_.pop_back();
        queued_[s] = 0;
        return s;
    }
    double initial_value() const {
        double worst = 0;
        for (u64 i = 0; i < initial_.size(); ++i) worst = std::max(worst, value_[initial_.data()[i]]);
        return worst;
    }
    // SOUND: rounded down, so by induction every value stays at or below the least fixed point.
    double worth(u64 o) {
        double worst = 0;
        for (u64 c = option_choice_.data()[o]; c < option_choice_.data()[o + 1]; ++c) worst = std::max(worst, expected(c));
        return worst;
    }
    double expected(u64 c) {
        double sum = 0;
        const u64 begin = m_.branch_start[c], end = m_.branch_start[c + 1];
        for (u64 b = begin; b < end; ++b) sum += m_.probability[b] * value_[m_.target[b]];
        work_ += end - begin;
        return down(sum, static_cast<double>(end - begin));
    }
    double backup(u32 s) {
        double x = 0;
        if (fresh_[s]) {
            x = INFINITE;
            for (u64 o = first(s); o < first(s + 1); ++o) x = std::min(x, worth(o));
            return x == INFINITE ? 0.0 : x;
        }
        for (u64 o = first(s); o < first(s + 1); ++o)
            if (permitted_[o]) x = std::max(x, worth(o));
        return x;
    }

    // About how often a run visits each state that takes any of its options with equal chance: what an increase there may count for at the
    // initial states. A guide, not a bound; states are passed through top down, so that without cycles once is enough.
    void weigh() {
        weight_.assign(m_.states, 0.0);
        std::vector<double> arriving(m_.states, 0.0);
        top_down_.resize(m_.states);
        std::iota(top_down_.begin(), top_down_.end(), 0u);
        std::stable_sort(top_down_.begin(), top_down_.end(), [&](u32 a, u32 b) { return rank_.data()[a] > rank_.data()[b]; });
        arrival_.assign(m_.states, 0.0);
        once_.assign(m_.states, 1);
        for (u32 i = 0; i + 1 < m_.states; ++i)
            if (rank_.data()[top_down_[i]] == rank_.data()[top_down_[i + 1]]) once_[top_down_[i]] = once_[top_down_[i + 1]] = 0;
        for (u32 s = 0; s < m_.states; ++s)
            for (u64 b = m_.branch_start[m_.choice_start[s]]; b < m_.branch_start[m_.choice_start[s + 1]]; ++b)
                if (m_.target[b] == s) once_[s] = 0;
        for (u64 i = 0; i < initial_.size(); ++i) arriving[initial_.data()[i]] = 1.0 / static_cast<double>(initial_.size());
        double rest = 1;
        for (int sweep = 0; sweep < SWEEPS && rest > 1e-6; ++sweep) {
            rest = 0;
            for (const u32 s : top_down_) {
                const double here = std::exchange(arriving[s], 0.0);
                if (here == 0) continue;
                weight_[s] += here;
                const double share = here / static_cast<double>(m_.choice_start[s + 1] - m_.choice_start[s]);
                for (u64 b = m_.branch_start[m_.choice_start[s]]; b < m_.branch_start[m_.choice_start[s + 1]]; ++b) {
                    arriving[m_.target[b]] += share * m_.probability[b];
                    if (rank_.data()[m_.target[b]] >= rank_.data()[s]) rest += share * m_.probability[b];
                }
            }
        }
        for (double& weight : weight_) weight = std::max(weight, 1e-250);
    }

    enum class Flow { SETTLED, ABOVE, CAP };
    // Evaluate the state again; returns by how much it rose, 0 where that is not worth while.
    double lift(u32 s) {
        const double x = backup(s);
        if (!(x > value_[s] + (settled_ * value_[s] + 1e-3 * settled_))) return 0;
        if (stamp_[s] != epoch_) {
            stamp_[s] = epoch_;
            log_.push_back({s, value_[s]});
        }
        return x - std::exchange(value_[s], x);
    }
    template <class F> void each_user(u32 s, F&& f) {
        for (u64 i = back_.start[s]; i < back_.start[s + 1]; ++i) {
            const u32 c = back_.choice[i], p = back_.owner[c];
            if (fresh_[p] || (reached_[p] && permitted_[option_of_[c]])) f(p, c);
        }
    }
    // Follow the increases that promise most at the initial states, for a while. What is queued stays queued: nothing is settled by this.
    bool rushes_above(double bound) {
        hot_.clear();
        for (const Waiting& one : queue_) hot_.push_back({weight_[one.state], one.state});
        for (const auto& [hope, s] : hot_) hope_[s] = hope;
        std::make_heap(hot_.begin(), hot_.end());
        bool above = false;
        while (!hot_.empty() && work_ < rush_ && !above) {
            const auto [hope, s] = hot_.front();
            std::pop_heap(hot_.begin(), hot_.end());
            hot_.pop_back();
            if (hope < hope_[s]) continue;  // it is there once more, with more hope
            hope_[s] = 0;
            if (ends(s) || ++times_[s] > TIMES) continue;
            touched_.push_back(s);
            const double rise = lift(s);
            if (rise == 0) continue;
            above = is_initial_[s] && value_[s] > bound;
            each_user(s, [&](u32 p, u32 c) {
                push(p);
                double chance = 0;
                for (u64 b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b)
                    if (m_.target[b] == s) chance += m_.probability[b];
                const double more = weight_[p] * chance * rise;
                if (more <= hope_[p]) return;
                hope_[p] = more;
                hot_.push_back({more, p});
                std::push_heap(hot_.begin(), hot_.end());
            });
        }
        for (const auto& [hope, s] : hot_) hope_[s] = 0;
        for (const u32 s : touched_) times_[s] = 0;
        touched_.clear();
        return above;
    }
    // Evaluate bottom up, every state once at most: without cycles this settles everything, else it brings the increases up to the initial states.
    bool sweeps_above(double bound, Poll& poll) {
        bool above = false;
        while (!queue_.empty() && !above && !poll.expired(1)) {
            const u32 s = pop();
            times_[s] = 1;
            touched_.push_back(s);
            if (ends(s) || lift(s) == 0) continue;
            above = is_initial_[s] && value_[s] > bound;
            each_user(s, [&](u32 p, u32) {
                if (times_[p]) again_.push_back(p);
                else push(p);
            });
        }
        for (const u32 s : touched_) times_[s] = 0;
        touched_.clear();
        for (const u32 s : again_) push(s);
        again_.clear();
        return above;
    }
    Flow propagate(double bound, u64 cap, Poll& poll) {
        work_ = 0;
        Flow flow = rushes_above(bound) || sweeps_above(bound, poll) ? Flow::ABOVE : Flow::SETTLED;
        while (!queue_.empty() && flow == Flow::SETTLED) {
            const u32 s = pop();
            if (ends(s) || lift(s) == 0) continue;
            each_user(s, [&](u32 p, u32) { push(p); });
            if (is_initial_[s] && value_[s] > bound) flow = Flow::ABOVE;
            else if (work_ > cap || poll.expired(1)) flow = Flow::CAP;
        }
        for (const Waiting& one : queue_) queued_[one.state] = 0;
        queue_.clear();
        spent_ += work_;
        return flow;
    }
    void undo(std::size_t to) {
        while (log_.size() > to) {
            value_[log_.back().first] = log_.back().second;
            log_.pop_back();
        }
        if (to == 0) ++epoch_;
    }
    void forget() {
        stale_ = true;
        log_.clear();
        ++epoch_;
    }

    // Permit the option, and for every state it makes reachable the one that `option_of_state` names.
    template <class F> void take(u32 o, F&& option_of_state) {
        added_.assign(1, o);
        newly_.clear();
        permitted_[o] = 1;
        stack_.clear();
        each_target(o, [&](u32 t) { reach(t); });
        while (!stack_.empty()) {
            const u32 s = stack_.back();
            stack_.pop_back();
            newly_.push_back(s);
            if (ends(s)) continue;
            const u32 chosen = option_of_state(s);
            permitted_[chosen] = 1;
            added_.push_back(chosen);
            each_target(chosen, [&](u32 t) { reach(t); });
        }
    }
    void take_least(u32 o) {
        take(o, [&](u32 s) { return least_.data()[s]; });
    }
    void take_greedy(u32 o) {
        take(o, [&](u32 s) {
            // Any option of least worth will do: the values are a pre-fixed point of the scheduler that takes it.
            u32 best = static_cast<u32>(first(s));
            double low = INFINITE;
            for (u64 p = first(s); p < first(s + 1); ++p)
                if (const double x = worth(p); x < low) low = x, best = static_cast<u32>(p);
            return best;
        });
    }
    void drop_added() {
        for (const u32 o : added_) permitted_[o] = 0;
        for (const u32 s : newly_) reached_[s] = 0;
    }
    // Every state that the option may lead to and that is not reached yet becomes a state where the least option counts.
    void open_fresh(u32 o) {
        opened_.clear();
        const auto visit = [&](u32 t) {
            if (reached_[t] || fresh_[t]) return;
            fresh_[t] = 1;
            opened_.push_back(t);
        };
        each_target(o, visit);
        for (std::size_t i = 0; i < opened_.size(); ++i)
            for (u64 p = first(opened_[i]); p < first(opened_[i] + 1); ++p) each_target(p, visit);
        for (const u32 s : opened_) push(s);
    }
    void close_fresh() {
        for (const u32 s : opened_) fresh_[s] = 0;
        opened_.clear();
    }
    Trial judge() const { return initial_value() <= std::max(bound_ - slack_, before_) ? Trial::ACCEPTED : Trial::BORDERLINE; }

    // A lower bound on the probability that a worst scheduler comes to each state, counted along states that a run visits once at most. Where several
    // permitted choices are about as bad, it takes each as often: so it comes to all states that a worst scheduler may come to. `loss_` is what that costs.
    void follow_worst() {
        stale_ = false;
        loss_ = 0;
        std::fill(arrival_.begin(), arrival_.end(), 0.0);
        u32 start = initial_.data()[0];
        for (u64 i = 1; i < initial_.size(); ++i)
            if (value_[initial_.data()[i]] > value_[start]) start = initial_.data()[i];
        arrival_[start] = 1 - MARGIN;
        std::vector<std::pair<double, u64>> choices;
        for (const u32 s : top_down_) {
            if (arrival_[s] == 0 || ends(s) || !once_[s]) continue;
            choices.clear();
            double high = -1;
            for (u64 o = first(s); o < first(s + 1); ++o)
                for (u64 c = option_choice_.data()[o]; permitted_[o] && c < option_choice_.data()[o + 1]; ++c)
                    if (const double x = expected(c); x >= high * (1 - TIE)) choices.push_back({x, c}), high = std::max(high, x);
            std::erase_if(choices, [&](const auto& one) { return one.first < high * (1 - TIE); });
            const double share = arrival_[s] / static_cast<double>(choices.size());
            for (const auto& [x, c] : choices) {
                loss_ += share * std::max(0.0, value_[s] - x);
                for (u64 b = m_.branch_start[c]; b < m_.branch_start[c + 1]; ++b) arrival_[m_.target[b]] += share * m_.probability[b];
            }
        }
    }
    // SOUND: along those choices the values fall by `loss_` on average in all, and what the option adds in its state, to which they come with at least
    // `arrival_`, counts that much. The margins are far above what rounding may take in so many steps.
    bool surely_too_much(u32 o) {
        if (stale_) {
            if (spent_ < followed_ + target_.size()) return false;  // following costs as much as it saves
            follow_worst();
            followed_ = spent_;
        }
        const u32 s = owner(o);
        const double more = worth(o) - value_[s];
        return more > 0 && initial_value() * (1 - 1e-2 * MARGIN) - loss_ * (1 + MARGIN) + arrival_[s] * more * (1 - MARGIN) > bound_;
    }

    // SOUND: a rejection is final. The more is permitted, the higher every value; states not reached yet are worth at least their minimum now, and at
    // least that when they are reached and take some of their options.
    Trial try_add(u32 o, Poll& poll) {
        before_ = initial_value();
        added_.clear();
        newly_.clear();
        // First with every state that is not reached at its minimum: no choice there can make it less.
        permitted_[o] = 1;
        push(owner(o));
        const Flow lower = propagate(bound_, cap_, poll);
        bool leads_out = false;
        each_target(o, [&](u32 t) { leads_out |= !reached_[t]; });
        if (lower != Flow::SETTLED || !leads_out) {
            const Trial result = lower == Flow::ABOVE ? Trial::REJECTED : lower == Flow::CAP ? Trial::HARD : judge();
            return finish(o, result);
        }
        const std::size_t mark = log_.size();
        ++epoch_;
        take_least(o);
        for (const u32 s : newly_) push(s);
        push(owner(o));
        const Flow simple = propagate(bound_, cap_, poll);
        if (simple == Flow::SETTLED && judge() == Trial::ACCEPTED) return finish(o, Trial::ACCEPTED);
        if (simple == Flow::CAP) {
            drop_added();
            return finish(o, Trial::HARD);
        }
        undo(mark);
        ++epoch_;
        drop_added();
        permitted_[o] = 1;
        open_fresh(o);
        push(owner(o));
        const Flow game = propagate(bound_, cap_, poll);
        if (game != Flow::SETTLED) {
            close_fresh();
            added_.clear();
            newly_.clear();
            return finish(o, game == Flow::ABOVE ? Trial::REJECTED : Trial::HARD);
        }
        take_greedy(o);
        const Trial result = judge();
        const std::vector<u32> opened = opened_;
        close_fresh();
        if (result == Trial::ACCEPTED)
            for (const u32 s : opened)
                if (!reached_[s]) value_[s] = minimum_.data()[s];
        if (result != Trial::ACCEPTED) drop_added();
        return finish(o, result);
    }
    // Permit all the options; states that become reachable take their least risky one. Where the initial value does not stay below the bound, nothing changes.
    bool try_group(const std::vector<u32>& options, Poll& poll) {
        before_ = initial_value();
        added_ = options;
        newly_.clear();
        stack_.clear();
        for (const u32 o : options) {
            permitted_[o] = 1;
            each_target(o, [&](u32 t) { reach(t); });
            push(owner(o));
        }
        while (!stack_.empty()) {
            const u32 s = stack_.back();
            stack_.pop_back();
            newly_.push_back(s);
            push(s);
            if (ends(s)) continue;
            const u32 chosen = least_.data()[s];
            permitted_[chosen] = 1;
            added_.push_back(chosen);
            each_target(chosen, [&](u32 t) { reach(t); });
        }
        if (propagate(bound_, 10 * cap_, poll) == Flow::SETTLED && judge() == Trial::ACCEPTED) {
            forget();
            return true;
        }
        drop_added();
        undo(0);
        return false;
    }
    Trial finish(u32 o, Trial result) {
        if (result == Trial::ACCEPTED) {
            if (added_.empty()) added_.assign(1, o);
            forget();
        } else {
            permitted_[o] = 0;
            undo(0);
        }
        return result;
    }

    struct Arrays {
        In<u64> choice_start, branch_start;
    } arrays_;
    In<u32> target_;
    In<double> probability_;
    In<u64> option_start_, option_choice_;
    In<u8> fail_;
    In<u32> initial_;
    In<double> minimum_;
    In<u32> least_, rank_;
    View m_;
    BackwardIndex back_;
    double bound_, slack_ = 0, settled_ = 1e-13, before_ = 0, loss_ = 0;
    u64 cap_, rush_, work_ = 0, spent_ = 0, followed_ = 0, epoch_ = 1;
    std::vector<u32> option_of_, stack_, added_, newly_, opened_, touched_, again_, top_down_;
    std::vector<u8> permitted_, reached_, fresh_, queued_, is_initial_, times_, once_;  // once_: a run visits the state at most once
    std::vector<double> value_, weight_, hope_, arrival_;
    std::vector<std::pair<double, u32>> hot_;  // a heap: what promises most goes first
    std::vector<u64> stamp_;                   // the last part of the undo log that holds the state
    std::vector<std::pair<u32, double>> log_;
    std::vector<Waiting> queue_;  // a heap: what lies further down settles first, the order of arrival among equals
    u64 turn_ = 0;
    bool stale_ = true;
};

// Marks the states that permitted options reach from the initial ones (Definition 8: the states of the induced MDP).
void reach_permitted(In<u64> branch_start, In<u32> target, In<u64> option_start, In<u64> option_choice, In<u8> permitted, In<u32> initial,
                     Out<u8> reached) {
    if (permitted.size() + 1 != option_choice.size() || reached.size() + 1 != option_start.size())
        throw std::invalid_argument("the arrays do not fit together");
    nb::gil_scoped_release release;
    std::fill(reached.data(), reached.data() + reached.size(), u8{0});
    std::vector<u32> stack;
    const auto reach = [&](u32 s) {
        if (reached.data()[s]) return;
        reached.data()[s] = 1;
        stack.push_back(s);
    };
    for (u64 i = 0; i < initial.size(); ++i) reach(initial.data()[i]);
    while (!stack.empty()) {
        const u32 s = stack.back();
        stack.pop_back();
        for (u64 o = option_start.data()[s]; o < option_start.data()[s + 1]; ++o)
            if (permitted.data()[o])
                for (u64 b = branch_start.data()[option_choice.data()[o]]; b < branch_start.data()[option_choice.data()[o + 1]]; ++b)
                    reach(target.data()[b]);
    }
}

// The least risk where several operators share an option: the chooser minimises over options, the environment maximises inside one. Values
// grow from 0, so they are lower bounds at any time; `best` names an option of least worth. Returns whether they settled before the time was up.
bool least_risk_game(In<u64> branch_start, In<u32> target, In<double> probability, In<u64> option_start, In<u64> option_choice,
                     Out<double> value, Out<u32> best, double seconds) {
    const u64 states = option_start.size() - 1;
    if (value.size() != states || best.size() != states) throw std::invalid_argument("value and best need one entry per state");
    Poll poll(seconds);
    nb::gil_scoped_release release;
    for (bool changed = true; changed;) {
        changed = false;
        for (u64 k = states; k-- > 0;) {
            const u64 begin = option_start.data()[k], end = option_start.data()[k + 1];
            if (begin == end) continue;
            double low = INFINITE;
            for (u64 o = begin; o < end; ++o) {
                double worst = 0;
                for (u64 c = option_choice.data()[o]; c < option_choice.data()[o + 1]; ++c) {
                    double sum = 0;
                    for (u64 b = branch_start.data()[c]; b < branch_start.data()[c + 1]; ++b)
                        sum += probability.data()[b] * value.data()[target.data()[b]];
                    worst = std::max(worst, down(sum, static_cast<double>(branch_start.data()[c + 1] - branch_start.data()[c])));
                }
                if (worst < low) low = worst, best.data()[k] = static_cast<u32>(o);
            }
            if (low > value.data()[k]) {
                changed |= low > value.data()[k] + (1e-14 * value.data()[k] + 1e-300);
                value.data()[k] = low;
            }
            if (poll.expired(end - begin)) return false;
        }
    }
    return true;
}

// Q-learning of costs inside the permitted options: `quality` starts optimistic and is updated in place; each step picks the option of least
// quality (ties and a share `explore` at random). `seen` counts visits per choice. Runs start at the initial states in turn and end where nothing is permitted.
u64 q_learn(In<u64> branch_start, In<u32> target, In<double> probability, In<u64> option_start, In<u64> option_choice, In<u8> permitted,
            In<u32> initial, In<double> cost, Out<double> quality, Out<u64> seen, u64 episodes, u64 longest, double explore, u64 seed,
            double seconds) {
    const u64 options = option_choice.size() - 1;
    if (permitted.size() != options || quality.size() != options || cost.size() != branch_start.size() - 1 || seen.size() != cost.size() ||
        initial.size() == 0)
        throw std::invalid_argument("the arrays do not fit together");
    Poll poll(seconds);
    nb::gil_scoped_release release;
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> unit(0.0, 1.0);
    u64 steps = 0;
    const auto lowest = [&](u32 s) {
        double low = INFINITE;
        for (u64 o = option_start.data()[s]; o < option_start.data()[s + 1]; ++o)
            if (permitted.data()[o]) low = std::min(low, quality.data()[o]);
        return low == INFINITE ? 0.0 : low;
    };
    for (u64 episode = 0; episode < episodes; ++episode) {
        u32 s = initial.data()[episode % initial.size()];
        for (u64 step = 0; step < longest; ++step) {
            u64 count = 0, chosen = 0;
            const double low = lowest(s);
            const bool any = unit(random) < explore;
            for (u64 o = option_start.data()[s]; o < option_start.data()[s + 1]; ++o)
                if (permitted.data()[o] && (any || quality.data()[o] <= low) && random() % ++count == 0) chosen = o;
            if (count == 0) break;
            const u64 begin = option_choice.data()[chosen], width = option_choice.data()[chosen + 1] - begin;
            const u64 c = begin + (width > 1 ? random() % width : 0);
            double draw = unit(random);
            u64 b = branch_start.data()[c];
            while (b + 1 < branch_start.data()[c + 1] && draw >= probability.data()[b]) draw -= probability.data()[b++];
            const u32 next = target.data()[b];
            const double rate = 1.0 / (1.0 + 0.05 * static_cast<double>(++seen.data()[c]));
            quality.data()[chosen] += rate * (cost.data()[c] + lowest(next) - quality.data()[chosen]);
            s = next;
            ++steps;
            if (poll.expired(16)) return steps;
        }
    }
    return steps;
}

}  // namespace
}  // namespace polvet::mdp

void bind_permissive(nb::module_& m) {
    using namespace polvet::mdp;
    using namespace nb::literals;
    nb::class_<Enlargement>(m, "Enlargement", "A permissive scheduler that grows; keeps its arrays alive.")
        .def(
            nb::init<In<u64>, In<u64>, In<u32>, In<double>, In<u64>, In<u64>, In<u8>, In<u32>, In<double>, In<u32>, In<u32>, double, u64>(),
            "choice_start"_a, "branch_start"_a, "target"_a, "probability"_a, "option_start"_a, "option_choice"_a, "fail"_a, "initial"_a,
            "minimum"_a, "least"_a, "rank"_a, "bound"_a, "cap"_a)
        .def("reset", &Enlargement::reset, "seed"_a)
        .def("enlarge", &Enlargement::enlarge, "priority"_a, "slack"_a, "seconds"_a, "work"_a)
        .def("extension", &Enlargement::extension, "option"_a, "best"_a)
        .def("permit", &Enlargement::permit, "options"_a)
        .def("read", &Enlargement::read, "permitted"_a, "reached"_a, "value"_a)
        .def("work", &Enlargement::work, "How many branches were looked at so far.")
        .def("count", &Enlargement::count);
    m.def("reach_permitted", &reach_permitted, "branch_start"_a, "target"_a, "option_start"_a, "option_choice"_a, "permitted"_a,
          "initial"_a, "reached"_a);
    m.def("least_risk_game", &least_risk_game, "branch_start"_a, "target"_a, "probability"_a, "option_start"_a, "option_choice"_a,
          "value"_a, "best"_a, "seconds"_a);
    m.def("q_learn", &q_learn, "branch_start"_a, "target"_a, "probability"_a, "option_start"_a, "option_choice"_a, "permitted"_a,
          "initial"_a, "cost"_a, "quality"_a, "seen"_a, "episodes"_a, "longest"_a, "explore"_a, "seed"_a, "seconds"_a);
}
