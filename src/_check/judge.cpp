// The fast checker: which states of a list the reference has to judge. Every other state is as its kind asks (docs/evidence.md): what
// holds of its choices, its ends, its starts. Whatever does not hold, or is in doubt here, is handed to the reference, state by state.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "policy.h"

namespace nb = nanobind;

namespace polvet::judging {

namespace {

// Natural numbers of any size, for sums of fractions: lowest digits first.
class Natural {
public:
    Natural(uint64_t value = 0) {
        for (; value; value >>= 32) digits_.push_back(uint32_t(value));
    }
    static Natural parse(std::string_view text) {
        Natural made;
        for (const char c : text) {
            if (c < '0' || c > '9') throw Unhandled("a fraction that is not written as n/d");
            made = made * Natural(10) + Natural(uint64_t(c - '0'));
        }
        return made;
    }
    bool is_zero() const { return digits_.empty(); }
    friend Natural operator*(const Natural& a, const Natural& b) {
        Natural out;
        out.digits_.resize(a.digits_.size() + b.digits_.size());
        for (size_t i = 0; i < a.digits_.size(); ++i) {
            uint64_t carry = 0;
            for (size_t j = 0; j < b.digits_.size() || carry; ++j) {
                carry += out.digits_[i + j] + uint64_t(a.digits_[i]) * (j < b.digits_.size() ? b.digits_[j] : 0);
                out.digits_[i + j] = uint32_t(carry);
                carry >>= 32;
            }
        }
        while (!out.digits_.empty() && out.digits_.back() == 0) out.digits_.pop_back();
        return out;
    }
    friend Natural operator+(const Natural& a, const Natural& b) {
        Natural out;
        uint64_t carry = 0;
        for (size_t k = 0; k < std::max(a.digits_.size(), b.digits_.size()) || carry; ++k) {
            carry += (k < a.digits_.size() ? a.digits_[k] : 0) + uint64_t(k < b.digits_.size() ? b.digits_[k] : 0);
            out.digits_.push_back(uint32_t(carry));
            carry >>= 32;
        }
        return out;
    }
    friend bool operator<=(const Natural& a, const Natural& b) {
        if (a.digits_.size() != b.digits_.size()) return a.digits_.size() < b.digits_.size();
        return !std::lexicographical_compare(b.digits_.rbegin(), b.digits_.rend(), a.digits_.rbegin(), a.digits_.rend());
    }
    friend bool operator==(const Natural&, const Natural&) = default;

private:
    std::vector<uint32_t> digits_;
};

struct Fraction {
    Natural top, bottom{1};
    friend bool operator<=(const Fraction& a, const Fraction& b) { return a.top * b.bottom <= b.top * a.bottom; }
};

Fraction fraction(const Value& value) {
    if (value.type != Value::TEXT && value.type != Value::NUMBER) throw Unhandled("a value that is not a fraction");
    const size_t slash = value.text.find('/');
    Fraction made{Natural::parse(value.text.substr(0, slash)), Natural(1)};
    if (slash != std::string_view::npos) made.bottom = Natural::parse(value.text.substr(slash + 1));
    if (value.text.empty() || slash == 0 || made.bottom.is_zero() || !(made.top <= made.bottom))
        throw Unhandled("a value that is not a probability");
    return made;
}

// The listed states, found by their values.
class Index {
public:
    Index(const World& world, const Json& json, const Value& items)
        : size_(world.size()), states_(size_t(items.count) * size_), slots_(64) {
        while (slots_.size() < 2 * size_t(items.count)) slots_.resize(2 * slots_.size());
        std::fill(slots_.begin(), slots_.end(), NONE);
        for (uint32_t k = 0; k < items.count; ++k) {
            const Value* item = &json.at(items, k);
            if (item->type == Value::OBJECT && json.find(*item, "state")) item = json.find(*item, "state");
            if (item->type != Value::ARRAY && item->type != Value::OBJECT) throw Unhandled("a state that is neither a list nor an object");
            if (item->count != size_ * (item->type == Value::OBJECT ? 2 : 1)) throw Unhandled("a state of another size");
            for (uint32_t v = 0; v < size_; ++v) {
                const Value* value = item->type == Value::ARRAY ? &json.at(*item, v) : json.find(*item, world.variables()[v].name);
                if (!value) throw Unhandled("a state does not name every variable");
                Number number{false, {.i = value->type == Value::TRUE}};
                if (value->type == Value::NUMBER || value->type == Value::TEXT) {
                    number.is_real = is_double(value->text);
                    if (number.is_real) number.cell.d = to_double(value->text);
                    else number.cell.i = to_integer(value->text);
                } else if (value->type != Value::TRUE && value->type != Value::FALSE) {
                    throw Unhandled("a value of a state that is not a number");
                }
                try {
                    if (!world.put(v, number, states_[size_t(k) * size_ + v])) throw Unhandled("a state outside of the bounds");
                } catch (const Doubt&) { throw Unhandled("a value of a state that its variable does not hold"); }
            }
            uint32_t& slot = slots_[place_of(state(k))];
            if (slot != NONE) throw Unhandled("a state is listed twice");
            slot = k;
        }
    }
    const Cell* state(uint32_t k) const { return states_.data() + size_t(k) * size_; }
    static constexpr uint32_t NONE = UINT32_MAX;
    uint32_t find(const Cell* cells) const { return slots_[place_of(cells)]; }

private:
    size_t place_of(const Cell* cells) const {
        uint64_t hash = 0x9e3779b97f4a7c15;
        for (uint32_t v = 0; v < size_; ++v) {
            hash = (hash ^ uint64_t(cells[v].i)) * 0xff51afd7ed558ccd;
            hash ^= hash >> 32;
        }
        for (size_t slot = hash & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1))
            if (slots_[slot] == NONE || !std::memcmp(state(slots_[slot]), cells, size_ * sizeof(Cell))) return slot;
    }

    uint32_t size_;
    Cells states_;
    std::vector<uint32_t> slots_;
};

enum class Who { LISTED, POLICY, EVERYBODY };
enum class Ends { NEVER, FINE, ONE, ZERO };
enum class Holds { CLOSED, FALLS, CLOSED_AND_FALLS, FALLS_OR_STAYS, AT_MOST, AT_LEAST };

struct Kind {
    std::string_view name;
    Who who;
    std::string_view column;  // of LISTED
    Ends fail, goal, ended;
    Holds holds;
    bool all_starts;
};
constexpr Kind KINDS[] = {
    {"safe-policy", Who::LISTED, "action", Ends::NEVER, Ends::FINE, Ends::FINE, Holds::CLOSED, false},
    {"reachable-set", Who::POLICY, "", Ends::NEVER, Ends::FINE, Ends::FINE, Holds::CLOSED, true},
    {"unsafe-rank", Who::EVERYBODY, "", Ends::FINE, Ends::NEVER, Ends::NEVER, Holds::FALLS, false},
    {"strong-cyclic", Who::LISTED, "action", Ends::NEVER, Ends::FINE, Ends::NEVER, Holds::CLOSED_AND_FALLS, false},
    {"no-strong-cyclic", Who::EVERYBODY, "", Ends::FINE, Ends::NEVER, Ends::FINE, Holds::FALLS_OR_STAYS, false},
    {"sure-end", Who::POLICY, "", Ends::NEVER, Ends::FINE, Ends::FINE, Holds::CLOSED_AND_FALLS, true},
    {"permissive", Who::LISTED, "allowed", Ends::ONE, Ends::FINE, Ends::FINE, Holds::AT_MOST, true},
    {"risk-bound", Who::POLICY, "", Ends::ONE, Ends::FINE, Ends::FINE, Holds::AT_MOST, true},
    {"risk-exceeds", Who::POLICY, "", Ends::FINE, Ends::ZERO, Ends::ZERO, Holds::AT_LEAST, false},
    {"conflict", Who::EVERYBODY, "", Ends::FINE, Ends::ZERO, Ends::ZERO, Holds::AT_LEAST, false},
};

class Judge {
public:
    Judge(std::string_view flat, std::string_view evidence)
        : json_(evidence), world_(flat), kind_(kind_of(json_)), index_(world_, json_, list("states")), count_(list("states").count) {
        if (kind_.who == Who::POLICY) chooser_.emplace(world_);
        const bool has_values = kind_.holds == Holds::AT_MOST || kind_.holds == Holds::AT_LEAST;
        for (uint32_t k = 0; has_values && k < count_; ++k) values_.push_back(fraction(said("value", k)));
        for (uint32_t k = 0; kind_.holds != Holds::CLOSED && kind_.holds != Holds::AT_MOST && k < count_; ++k) {
            const Value& rank = said("rank", k);
            if (rank.type != Value::NUMBER || is_double(rank.text) || to_integer(rank.text) < 0)
                throw Unhandled("a rank that is not a natural number");
            ranks_.push_back(to_integer(rank.text));
        }
        if (has_values) bound_ = fraction(top("bound"));
        is_fair_ = kind_.holds == Holds::CLOSED_AND_FALLS && world_.says("environment") == "fair";
        if (kind_.holds == Holds::CLOSED_AND_FALLS && !is_fair_ && world_.says("environment") != "adversarial")
            throw Unhandled("an environment that is not known");
        if (world_.avoids("loop")) throw Unhandled("runs that have to end");
        if (json_.find(json_.root, "taken") || json_.find(json_.root, "region")) throw Unhandled("a claim about a part");
    }

    // The places of the states that are left to the reference; `poll` is called now and then and may throw.
    template <class Poll> std::vector<uint32_t> doubtful(Poll&& poll) {
        std::vector<uint32_t> left;
        for (uint32_t k = 0; k < count_; ++k) {
            if (k % 1024 == 0) poll();
            bool holds = false;
            try {
                holds = judge(k);
            } catch (const Doubt&) {}
            if (!holds) left.push_back(k);
        }
        return left;
    }

    // How many start states there are, or the first that is not as the claim says.
    template <class Poll> std::pair<uint64_t, std::vector<Cell>> starts(Poll&& poll) {
        uint64_t count = 0;
        std::vector<Cell> bad;
        if (!kind_.all_starts) return {count, bad};
        world_.starts([&](const Cell* state) {
            if (++count % 4096 == 0) poll();
            const uint32_t k = index_.find(state);
            const bool good = k != Index::NONE && (values_.empty() || values_[k] <= bound_);
            if (!good) bad.assign(state, state + world_.size());
            return good;
        });
        return {count, bad};
    }

    const World& world() const { return world_; }
    bool is_about_all_starts() const { return kind_.all_starts; }
    uint32_t count() const { return count_; }

private:
    static const Kind& kind_of(const Json& json) {
        const Value* kind = json.find(json.root, "kind");
        for (const Kind& one : KINDS)
            if (kind && kind->type == Value::TEXT && kind->text == one.name) return one;
        throw Unhandled("a kind of evidence that is not looked at here");
    }
    const Value& top(std::string_view key) const {
        const Value* value = json_.find(json_.root, key);
        if (!value) throw Unhandled("the evidence lacks " + std::string(key));
        return *value;
    }
    const Value& list(std::string_view key) const {
        if (top(key).type != Value::ARRAY) throw Unhandled(std::string(key) + " is not a list");
        return top(key);
    }
    // What is said of a state: by the object that lists it, or in a list of the same length.
    const Value& said(std::string_view key, uint32_t k) const {
        const Value& item = json_.at(list("states"), k);
        if (item.type == Value::OBJECT && json_.find(item, "state")) {
            if (json_.find(item, "mixed") || json_.find(item, "taken")) throw Unhandled("mixtures of labels");
            if (const Value* value = json_.find(item, key)) return *value;
        }
        if (list(key).count != count_) throw Unhandled(std::string(key) + " does not say something of each state");
        return json_.at(list(key), k);
    }

    bool end(uint32_t k, Ends wanted) const {
        return wanted == Ends::FINE || (wanted != Ends::NEVER && values_[k].top == (wanted == Ends::ONE ? values_[k].bottom : Natural(0)));
    }

    bool judge(uint32_t k) {
        const Cell* state = index_.state(k);
        // SOUND: fail is asked first, so that it beats goal.
        if (world_.is_fail(state)) return end(k, kind_.fail);
        if (world_.is_goal(state)) return end(k, kind_.goal);
        world_.expand(state, moves_);
        labels_.clear();
        for (const Moves::Move& move : moves_.moves)
            if (move.label != SILENT && std::find(labels_.begin(), labels_.end(), move.label) == labels_.end())
                labels_.push_back(move.label);
        if (moves_.moves.empty()) return end(k, world_.avoids("deadlock") ? kind_.fail : kind_.ended);
        bool may_stick = false;
        if (kind_.who == Who::LISTED) {
            if (!read_chosen(k)) return false;
        } else if (labels_.empty()) {
            chosen_ = {SILENT};
        } else if (kind_.who == Who::POLICY) {
            chooser_->choose(state, labels_, chosen_, may_stick);
            if (kind_.holds == Holds::AT_LEAST && (chosen_.size() > 1 || (may_stick && !chosen_.empty()))) return false;
        } else {
            chosen_ = labels_;
        }
        if (may_stick && !end(k, world_.avoids("stuck") ? kind_.fail : kind_.ended)) return false;
        return std::all_of(chosen_.begin(), chosen_.end(), [&](int32_t label) { return holds(k, label); });
    }

    // The listed labels of a state; false where there are none, or one is no choice there.
    bool read_chosen(uint32_t k) {
        const Value& item = said(kind_.column, k);
        chosen_.clear();
        const uint32_t count = item.type == Value::ARRAY ? item.count : 1;
        for (uint32_t j = 0; j < count; ++j) {
            const Value& label = item.type == Value::ARRAY ? json_.at(item, j) : item;
            if (label.type != Value::NUL && label.type != Value::TEXT) throw Unhandled("a label that is not a text");
            const int32_t number = label.type == Value::NUL ? SILENT : world_.label(std::string(label.text));
            if (number == SILENT ? !labels_.empty() : std::find(labels_.begin(), labels_.end(), number) == labels_.end()) return false;
            chosen_.push_back(number);
        }
        return !chosen_.empty();
    }

    bool holds(uint32_t k, int32_t label) {
        bool closed = true, some = false, every = true, same = true, leads = false;
        for (const Moves::Move& move : moves_.moves) {
            if (move.label != label && move.label != SILENT) continue;
            bool falls = false;
            for (uint32_t o = move.begin; o < move.end; ++o) {
                const uint32_t after = index_.find(moves_.states.data() + size_t(o) * world_.size());
                closed &= after != Index::NONE;
                if (ranks_.empty()) continue;
                falls |= after != Index::NONE && ranks_[after] < ranks_[k];
                same &= after != Index::NONE && ranks_[after] == ranks_[k];
            }
            some |= falls;
            every &= falls;
            if (kind_.holds == Holds::AT_MOST && (!closed || !is_at_most(k, move))) return false;
            if (kind_.holds == Holds::AT_LEAST) leads |= leads_on(k, move);
        }
        switch (kind_.holds) {
        case Holds::CLOSED:
        case Holds::AT_MOST: return closed;
        case Holds::FALLS: return some;
        case Holds::CLOSED_AND_FALLS: return closed && (is_fair_ ? some : every);
        case Holds::FALLS_OR_STAYS: return some || same;
        case Holds::AT_LEAST: return values_[k].top.is_zero() || leads;
        }
        return false;
    }

    // The weighted sum of values after a move, and the sum of its weights.
    std::pair<Fraction, Fraction> sums(const Moves::Move& move) {
        Fraction total{Natural(0), Natural(1)}, whole = total;
        const auto add = [](Fraction& sum, const Natural& top, const Natural& bottom) {
            if (sum.bottom == bottom) sum.top = sum.top + top;
            else sum = {sum.top * bottom + top * sum.bottom, sum.bottom * bottom};
        };
        for (uint32_t o = move.begin; o < move.end; ++o) {
            const Cell* state = moves_.states.data() + size_t(o) * world_.size();
            const uint32_t after = index_.find(state);
            const Natural weight(uint64_t(moves_.weights[o].top)), share(uint64_t(moves_.weights[o].bottom));
            if (after != Index::NONE) add(total, weight * values_[after].top, share * values_[after].bottom);
            else if (world_.is_fail(state)) add(total, weight, share);
            add(whole, weight, share);
        }
        return {total, whole};
    }
    bool is_at_most(uint32_t k, const Moves::Move& move) {
        const auto [total, whole] = sums(move);
        return total <= Fraction{values_[k].top * whole.top, values_[k].bottom * whole.bottom};
    }
    bool leads_on(uint32_t k, const Moves::Move& move) {
        bool nearer = false;
        for (uint32_t o = move.begin; o < move.end; ++o) {
            const uint32_t after = index_.find(moves_.states.data() + size_t(o) * world_.size());
            nearer |= after == Index::NONE || ranks_[after] < ranks_[k] || values_[after].top.is_zero();
        }
        if (!nearer) return false;
        const auto [total, whole] = sums(move);
        return Fraction{values_[k].top * whole.top, values_[k].bottom * whole.bottom} <= total;
    }

    Json json_;
    World world_;
    const Kind& kind_;
    Index index_;
    uint32_t count_;
    std::optional<Chooser> chooser_;
    std::vector<Fraction> values_;
    std::vector<int64_t> ranks_;
    Fraction bound_;
    bool is_fair_ = false;
    Moves moves_;
    std::vector<int32_t> labels_, chosen_;
};

}  // namespace

// (places of doubtful states, number of start states or None, a bad start state or None), or in words why all is left to the reference.
nb::object judge(nb::bytes flat, nb::bytes evidence, nb::object poll) {
    std::vector<uint32_t> left;
    std::pair<uint64_t, std::vector<Cell>> starts;
    nb::object count = nb::none(), bad = nb::none();
    try {
        Judge judge({flat.c_str(), flat.size()}, {evidence.c_str(), evidence.size()});
        const auto look = [&] {
            nb::gil_scoped_acquire gil;
            if (PyErr_CheckSignals()) throw nb::python_error();
            if (!poll.is_none()) poll();
        };
        {
            nb::gil_scoped_release free;
            left = judge.doubtful(look);
            starts = judge.starts(look);
        }
        if (judge.is_about_all_starts()) count = nb::int_(starts.first);
        if (!starts.second.empty()) {
            nb::list values;
            for (uint32_t v = 0; v < judge.world().size(); ++v) {
                if (judge.world().variables()[v].is_real) values.append(starts.second[v].d);
                else values.append(starts.second[v].i);
            }
            bad = values;
        }
    } catch (const Unhandled& why) { return nb::str(why.what()); } catch (const std::out_of_range&) {
        return nb::str("a part that is too short");
    } catch (const Doubt&) { return nb::str("a number that is too large"); }
    return nb::make_tuple(left, count, bad);
}

NB_MODULE(_check, m) {
    m.doc() = "The fast checker of evidence: which listed states the reference has to judge.";
    m.def("judge", &judge, nb::arg("flat"), nb::arg("evidence"), nb::arg("poll").none() = nb::none(),
          "The places of the states that are left to the reference, the number of start states, and one that is not as the claim says; or "
          "why all is left.");
}

}  // namespace polvet::judging
