#include "world.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace polvet::judging {

namespace {

constexpr int64_t DOUBLES = int64_t(1) << 53;  // integers up to this are doubles

Number integer(int64_t value) { return {false, {.i = value}}; }

Number real(double value) {
    if (!std::isfinite(value)) throw Doubt{};
    return {true, {.d = value}};
}

template <class F> int64_t checked(F&& builtin) {
    int64_t result;
    if (builtin(&result)) throw Doubt{};
    return result;
}

int64_t add(int64_t a, int64_t b) {
    return checked([&](int64_t* r) { return __builtin_add_overflow(a, b, r); });
}
int64_t subtract(int64_t a, int64_t b) {
    return checked([&](int64_t* r) { return __builtin_sub_overflow(a, b, r); });
}
int64_t multiply(int64_t a, int64_t b) {
    return checked([&](int64_t* r) { return __builtin_mul_overflow(a, b, r); });
}

int compare(Number a, Number b) {
    if (!a.is_real && !b.is_real) return a.cell.i < b.cell.i ? -1 : a.cell.i > b.cell.i;
    const double x = real_of(a), y = real_of(b);
    return x < y ? -1 : x > y;
}

int64_t whole(double value) {
    if (!(std::fabs(value) < 0x1p62)) throw Doubt{};
    return int64_t(value);
}

Number modulo(Number a, Number b) {
    if (!a.is_real && !b.is_real) {
        if (b.cell.i == 0 || b.cell.i == std::numeric_limits<int64_t>::min() || a.cell.i == std::numeric_limits<int64_t>::min())
            throw Doubt{};
        const int64_t by = std::abs(b.cell.i), rest = a.cell.i % by;
        return integer(rest < 0 ? rest + by : rest);
    }
    const double by = std::fabs(real_of(b));
    if (by == 0) throw Doubt{};
    double rest = std::fmod(real_of(a), by);
    if (rest < 0) rest += by;
    return real(rest + 0.0);
}

Number power(Number a, Number b) {
    if (a.is_real || b.is_real) return real(std::pow(real_of(a), real_of(b)));
    if (b.cell.i < 0 || (b.cell.i > 63 && std::abs(a.cell.i) > 1)) throw Doubt{};
    int64_t result = 1;
    for (int64_t k = 0; k < (std::abs(a.cell.i) > 1 ? b.cell.i : std::min<int64_t>(b.cell.i, 2 + b.cell.i % 2)); ++k)
        result = multiply(result, a.cell.i);
    return integer(result);
}

using Function = double (*)(double);
const std::vector<std::pair<std::string_view, Function>> FUNCTIONS = {
    {"sin", std::sin},     {"cos", std::cos},     {"tan", std::tan},   {"asin", std::asin}, {"acos", std::acos},
    {"atan", std::atan},   {"sinh", std::sinh},   {"cosh", std::cosh}, {"tanh", std::tanh}, {"asinh", std::asinh},
    {"acosh", std::acosh}, {"atanh", std::atanh}, {"exp", std::exp},
};

struct Sign {
    std::string_view word;
    Op op;
    int operands;  // -1: two or more, 0: one or more
    enum { TRUTH, SAME, REAL } gives;
};
constexpr std::array<Sign, 23> SIGNS = {{
    {"not", Op::NOT, 1, Sign::TRUTH},     {"and", Op::AND, 0, Sign::TRUTH},   {"or", Op::OR, 0, Sign::TRUTH},
    {"=>", Op::IMPLIES, 2, Sign::TRUTH},  {"=", Op::EQUAL, 2, Sign::TRUTH},   {"<", Op::LESS, 2, Sign::TRUTH},
    {"<=", Op::AT_MOST, 2, Sign::TRUTH},  {"+", Op::ADD, -1, Sign::SAME},     {"-", Op::SUBTRACT, 2, Sign::SAME},
    {"*", Op::MULTIPLY, -1, Sign::SAME},  {"min", Op::LEAST, -1, Sign::SAME}, {"max", Op::GREATEST, -1, Sign::SAME},
    {"/", Op::DIVIDE, 2, Sign::REAL},     {"%", Op::MODULO, 2, Sign::SAME},   {"pow", Op::POWER, 2, Sign::SAME},
    {"log", Op::LOG, 2, Sign::REAL},      {"abs", Op::ABS, 1, Sign::SAME},    {"sgn", Op::SIGN, 1, Sign::TRUTH},
    {"floor", Op::FLOOR, 1, Sign::TRUTH}, {"ceil", Op::CEIL, 1, Sign::TRUTH}, {"trc", Op::TRUNCATE, 1, Sign::TRUTH},
    {"ite", Op::IF, 3, Sign::SAME},       {"at", Op::AT, -1, Sign::SAME},
}};

// Fractions of small numbers; anything larger is a Doubt.
Ratio lowest(__int128 top, __int128 bottom) {
    if (bottom == 0) throw Doubt{};
    if (bottom < 0) top = -top, bottom = -bottom;
    __int128 a = top < 0 ? -top : top, b = bottom;
    while (b) std::swap(a %= b, b);
    top /= a, bottom /= a;
    constexpr __int128 most = std::numeric_limits<int64_t>::max() / 4;
    if (top > most || top < -most || bottom > most) throw Doubt{};
    return {int64_t(top), int64_t(bottom)};
}

Number as_number(Ratio x) {
    if (x.bottom != 1) throw Doubt{};
    return integer(x.top);
}

}  // namespace

double real_of(Number x) {
    if (x.is_real) return x.cell.d;
    // SOUND: beyond these an integer and its nearest double differ, which the reference tells apart.
    if (x.cell.i > DOUBLES || x.cell.i < -DOUBLES) throw Doubt{};
    return double(x.cell.i);
}

bool is_true(const Expression& e, const Cell* state) {
    switch (e.op) {
    case Op::NOT: return !is_true(*e.parts[0], state);
    case Op::AND: return std::all_of(e.parts.begin(), e.parts.end(), [&](const Expr& part) { return is_true(*part, state); });
    case Op::OR: return std::any_of(e.parts.begin(), e.parts.end(), [&](const Expr& part) { return is_true(*part, state); });
    case Op::IMPLIES: return !is_true(*e.parts[0], state) || is_true(*e.parts[1], state);
    default: {
        const Number value = evaluate(e, state);
        return value.is_real ? value.cell.d != 0 : value.cell.i != 0;
    }
    }
}

Number evaluate(const Expression& e, const Cell* state) {
    const auto part = [&](size_t k) { return evaluate(*e.parts[k], state); };
    const auto fold = [&](auto&& ints, auto&& reals) {
        Number total = part(0);
        for (size_t k = 1; k < e.parts.size(); ++k) {
            const Number next = part(k);
            total = total.is_real || next.is_real ? real(reals(real_of(total), real_of(next))) : integer(ints(total.cell.i, next.cell.i));
        }
        return total;
    };
    switch (e.op) {
    case Op::INTEGER: return integer(e.i);
    case Op::DOUBLE: return real(e.d);
    case Op::PLACE: return {e.is_real, state[e.i]};
    case Op::ERROR: throw Doubt{};
    case Op::NOT:
    case Op::AND:
    case Op::OR:
    case Op::IMPLIES: return integer(is_true(e, state));
    case Op::EQUAL: return integer(compare(part(0), part(1)) == 0);
    case Op::LESS: return integer(compare(part(0), part(1)) < 0);
    case Op::AT_MOST: return integer(compare(part(0), part(1)) <= 0);
    case Op::ADD: return fold(add, [](double a, double b) { return a + b; });
    case Op::SUBTRACT: return fold(subtract, [](double a, double b) { return a - b; });
    case Op::MULTIPLY: return fold(multiply, [](double a, double b) { return a * b; });
    case Op::LEAST: return fold([](int64_t a, int64_t b) { return std::min(a, b); }, [](double a, double b) { return b < a ? b : a; });
    case Op::GREATEST: return fold([](int64_t a, int64_t b) { return std::max(a, b); }, [](double a, double b) { return b > a ? b : a; });
    case Op::DIVIDE: {
        const double top = real_of(part(0)), bottom = real_of(part(1));
        if (bottom == 0) throw Doubt{};
        return real(top / bottom);
    }
    case Op::MODULO: {
        const Number a = part(0);
        return modulo(a, part(1));
    }
    case Op::POWER: {
        const Number a = part(0);
        return power(a, part(1));
    }
    case Op::LOG: {
        const double a = real_of(part(0)), b = real_of(part(1));
        if (a <= 0 || b <= 0 || b == 1) throw Doubt{};
        return real(std::log(a) / std::log(b));
    }
    case Op::ABS: {
        const Number a = part(0);
        if (a.is_real) return real(std::fabs(a.cell.d));
        return integer(a.cell.i < 0 ? subtract(0, a.cell.i) : a.cell.i);
    }
    case Op::SIGN: return integer(compare(part(0), integer(0)));
    case Op::FLOOR:
    case Op::CEIL:
    case Op::TRUNCATE: {
        const Number a = part(0);
        if (!a.is_real) return a;
        return integer(whole(e.op == Op::FLOOR ? std::floor(a.cell.d) : e.op == Op::CEIL ? std::ceil(a.cell.d) : std::trunc(a.cell.d)));
    }
    case Op::FUNCTION: return real(FUNCTIONS[size_t(e.i)].second(real_of(part(0))));
    case Op::IF: return part(is_true(*e.parts[0], state) ? 1 : 2);
    case Op::AT: {
        const Number which = part(0);
        if (which.is_real) throw Doubt{};
        const int64_t place = which.cell.i;
        if (place < 0 || place + 1 >= int64_t(e.parts.size())) throw Doubt{};
        return part(size_t(place) + 1);
    }
    }
    throw Doubt{};
}

Ratio weight_of(const Expression& e, const Cell* state) {
    switch (e.op) {
    case Op::INTEGER: return {e.i, 1};
    case Op::ADD:
    case Op::SUBTRACT:
    case Op::MULTIPLY:
    case Op::DIVIDE: {
        Ratio total = weight_of(*e.parts[0], state);
        for (size_t k = 1; k < e.parts.size(); ++k) {
            const Ratio next = weight_of(*e.parts[k], state);
            const __int128 a = total.top, b = total.bottom, c = next.top, d = next.bottom;
            total = e.op == Op::ADD        ? lowest(a * d + c * b, b * d)
                    : e.op == Op::SUBTRACT ? lowest(a * d - c * b, b * d)
                    : e.op == Op::MULTIPLY ? lowest(a * c, b * d)
                                           : lowest(a * d, b * c);
        }
        return total;
    }
    case Op::IF: return weight_of(*e.parts[is_true(*e.parts[0], state) ? 1 : 2], state);
    case Op::LEAST:
    case Op::GREATEST:
    case Op::AT: {
        std::vector<Ratio> values;
        if (e.op == Op::AT) {
            const int64_t place = as_number(weight_of(*e.parts[0], state)).cell.i;
            if (place < 0 || place + 1 >= int64_t(e.parts.size())) throw Doubt{};
            return weight_of(*e.parts[size_t(place) + 1], state);
        }
        Ratio best = weight_of(*e.parts[0], state);
        for (size_t k = 1; k < e.parts.size(); ++k) {
            const Ratio next = weight_of(*e.parts[k], state);
            const bool is_less = __int128(next.top) * best.bottom < __int128(best.top) * next.bottom;
            if (is_less == (e.op == Op::LEAST)) best = next;
        }
        return best;
    }
    default: break;
    }
    // SOUND: what may be a double somewhere inside is left to the reference, which computes weights in fractions.
    if (e.is_real) throw Doubt{};
    std::vector<const Expression*> pending{&e};
    while (!pending.empty()) {
        const Expression* part = pending.back();
        pending.pop_back();
        if (part->is_real || part->op == Op::DIVIDE) throw Doubt{};
        for (const Expr& child : part->parts) pending.push_back(child.get());
    }
    return {evaluate(e, state).cell.i, 1};
}

// -- reading

World::World(std::string_view text) {
    const std::vector<Item> items = parse_flat(text);
    if (items.empty() || !items[0].is("flat") || items[0].parts.size() != 2 || items[0].parts[1].text != "1")
        throw Unhandled("the text does not begin with (flat 1)");
    for (size_t k = 1; k < items.size(); ++k) read(items[k]);
    if (!fail_ || !goal_ || meaning_.empty()) throw Unhandled("the text lacks one of fail, goal, meaning");
    is_chance_ = says("choice") == "chance";
    disables_ = says("bounds") == "disable";
    if (!is_chance_ && says("choice") != "policy") throw Unhandled("a choice that is not known");
    if (!disables_ && says("bounds") != "error") throw Unhandled("bounds that are not known");

    // SOUND: `and` is read from the left, so an operator is left out only where the first part of its guard is 0.
    std::vector<std::pair<int64_t, int64_t>> firsts;
    std::map<int64_t, size_t> counts;
    for (const Operator& op : operators_) {
        const Expression* guard = op.guard.get();
        while (guard->op == Op::AND) guard = guard->parts[0].get();
        const bool is_test =
            guard->op == Op::EQUAL && guard->parts[0]->op == Op::PLACE && guard->parts[1]->op == Op::INTEGER && !guard->parts[0]->is_real;
        firsts.emplace_back(is_test ? guard->parts[0]->i : -1, is_test ? guard->parts[1]->i : 0);
        if (is_test) ++counts[firsts.back().first];
    }
    const auto most = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    if (most == counts.end() || most->second < 8) return;
    tested_ = uint32_t(most->first);
    for (auto [place, value] : firsts)
        if (place == most->first) by_value_[value];
    for (uint32_t k = 0; k < firsts.size(); ++k) {
        const bool is_tested = firsts[k].first == most->first;
        if (!is_tested) others_.push_back(k);
        for (auto& [value, own] : by_value_)
            if (!is_tested || firsts[k].second == value) own.push_back(k);
    }
}

const std::string& World::says(const std::string& key) const {
    const auto found = meaning_.find(key);
    if (found == meaning_.end() || found->second.size() != 1) throw Unhandled("the meaning does not say one word for " + key);
    return found->second[0];
}

bool World::avoids(const std::string& what) const {
    const auto found = meaning_.find("avoid");
    return found != meaning_.end() && std::count(found->second.begin(), found->second.end(), what);
}

void World::declare(const Item& item) {
    if (!item.is_list || item.parts.size() != 4) throw Unhandled("a variable without two bounds");
    Variable variable{item.parts[1].name(), item.is("real"), false, false, {}, {}};
    if (!variable.is_real && !item.is("variable") && !item.is("integer")) throw Unhandled("no kind of variable");
    const auto bound = [&](const Item& word, bool& has, Cell& cell) {
        if (word.word() == "*" && !item.is("variable")) return;
        has = true;
        if (variable.is_real) cell.d = to_double(word.text);
        else cell.i = to_integer(word.text);
    };
    bound(item.parts[2], variable.has_low, variable.low);
    bound(item.parts[3], variable.has_high, variable.high);
    if (places_.count(variable.name) || defined_.count(variable.name)) throw Unhandled("a name stands twice");
    places_[variable.name] = uint32_t(variables_.size());
    variables_.push_back(variable);
}

uint32_t World::place(const Item& word) const {
    const auto found = places_.find(word.name());
    if (found == places_.end()) throw Unhandled("there is no variable " + word.name());
    return found->second;
}

int32_t World::label(const std::string& name) const {
    const auto found = labels_.find(name);
    return found == labels_.end() ? -2 : found->second;
}

Expr World::compile(const Item& item) const {
    auto made = std::make_shared<Expression>();
    if (!item.is_list) {
        const std::string& word = item.text;
        if (word == "error") return made;
        if (is_number(word)) {
            made->op = is_double(word) ? Op::DOUBLE : Op::INTEGER;
            made->is_real = is_double(word);
            if (made->is_real) made->d = to_double(word);
            else made->i = to_integer(word);
            return made;
        }
        if (const auto known = defined_.find(item.name()); known != defined_.end() && word[0] != '"') return known->second;
        made->op = Op::PLACE;
        made->i = place(item);
        made->is_real = variables_[size_t(made->i)].is_real;
        return made;
    }
    if (item.parts.size() < 2) throw Unhandled("an empty expression");
    const std::string& sign = item.parts[0].word();
    for (size_t k = 1; k < item.parts.size(); ++k) made->parts.push_back(compile(item.parts[k]));
    const auto is_real = [&](size_t from) {
        return std::any_of(made->parts.begin() + long(from), made->parts.end(), [](const Expr& e) { return e->is_real; });
    };
    const int count = int(made->parts.size());
    for (size_t k = 0; k < FUNCTIONS.size(); ++k)
        if (sign == FUNCTIONS[k].first && count == 1) {
            made->op = Op::FUNCTION;
            made->i = int64_t(k);
            made->is_real = true;
            return made;
        }
    for (const Sign& one : SIGNS)
        if (sign == one.word && (one.operands == count || (one.operands < 0 && count >= 2) || one.operands == 0)) {
            made->op = one.op;
            made->is_real = one.gives == Sign::REAL || (one.gives == Sign::SAME && is_real(one.op == Op::IF || one.op == Op::AT));
            return made;
        }
    throw Unhandled(sign + " does not have so many operands");
}

Operator World::row(const Item& item) const {
    const uint32_t table = place(item.parts[1]);
    Operator op;
    auto guard = std::make_shared<Expression>();
    guard->op = Op::NOT;
    auto any = std::make_shared<Expression>();
    any->op = Op::OR;
    const auto number = [](int64_t value) {
        auto made = std::make_shared<Expression>();
        made->op = Op::INTEGER;
        made->i = value;
        return made;
    };
    if (const auto events = events_.find(table); events != events_.end())
        for (const uint32_t event : events->second) {
            auto flag = std::make_shared<Expression>();
            flag->op = Op::PLACE;
            flag->i = event;
            any->parts.push_back(flag);
        }
    guard->parts.push_back(any);
    op.guard = guard;
    const int64_t source = to_integer(item.parts[2].parts[0].word());
    for (size_t k = 3; k < item.parts.size(); ++k) {
        const std::vector<Item>& outcome = item.parts[k].parts;
        if (outcome.size() < 2 || outcome.size() > 3) throw Unhandled("an outcome of a row");
        const int64_t target = to_integer(outcome[1].word());
        Stage stage{{table, number(target)}};
        if (const auto features = features_.find(table); features != features_.end())
            for (const auto& [feature, values] : features->second) {
                if (std::min(target, source) < 0 || size_t(std::max(target, source)) >= values.size())
                    throw Unhandled("a row leads beyond its features");
                if (values[size_t(target)] != values[size_t(source)]) stage.push_back({feature, number(values[size_t(target)])});
            }
        if (outcome.size() == 3) stage.push_back({place(outcome[2]), number(1)});
        op.branches.push_back({number(to_integer(outcome[0].word())), {stage}});
    }
    return op;
}

void World::read(const Item& item) {
    if (!item.is_list || item.parts.empty()) throw Unhandled("an item that is not a list");
    const std::string& key = item.parts[0].word();
    const size_t size = item.parts.size();
    const auto label_of = [&](const Item& word) {
        return word.word() == "-" ? SILENT : labels_.emplace(word.name(), int32_t(labels_.size())).first->second;
    };
    if (key == "variable" || key == "integer" || key == "real") {
        if (!scratch_.empty()) throw Unhandled("a variable after scratch variables");
        declare(item);
        count_ = variables_.size();
    } else if (key == "scratch" && size == 3) {
        declare(item.parts[1]);
        Cell cell;
        const bool is_real = variables_.back().is_real;
        if (is_real) cell.d = to_double(item.parts[2].word());
        else cell.i = to_integer(item.parts[2].word());
        scratch_.push_back(cell);
    } else if (key == "define" && size == 3) {
        const std::string name = item.parts[1].name();
        if (places_.count(name) || defined_.count(name)) throw Unhandled("a name stands twice");
        const Expr made = compile(item.parts[2]);
        defined_[name] = made;
    } else if (key == "operator" && size >= 4) {
        Operator op{label_of(item.parts[1]), compile(item.parts[2]), {}};
        for (size_t k = 3; k < size; ++k) {
            const Item& branch = item.parts[k];
            if (!branch.is("branch") || branch.parts.size() < 2) throw Unhandled("a part that is not a branch");
            Branch made{compile(branch.parts[1]), {}};
            for (size_t j = 2; j < branch.parts.size(); ++j) {
                if (!branch.parts[j].is("then")) throw Unhandled("a part that is not a stage");
                Stage& stage = made.stages.emplace_back();
                for (size_t a = 1; a < branch.parts[j].parts.size(); ++a) {
                    const Item& assignment = branch.parts[j].parts[a];
                    if (!assignment.is_list || assignment.parts.size() != 2) throw Unhandled("a part that is not an assignment");
                    stage.push_back({place(assignment.parts[0]), compile(assignment.parts[1])});
                }
            }
            op.branches.push_back(std::move(made));
        }
        operators_.push_back(std::move(op));
    } else if (key == "feature" && size >= 3) {
        std::vector<int64_t> values;
        for (size_t k = 3; k < size; ++k) values.push_back(to_integer(item.parts[k].word()));
        features_[place(item.parts[2])].emplace_back(place(item.parts[1]), std::move(values));
    } else if (key == "event" && size >= 2) {
        for (size_t k = 2; k < size; ++k) events_[place(item.parts[1])].push_back(place(item.parts[k]));
    } else if (key == "rows" && size >= 4 && item.parts[2].is_list && item.parts[2].parts.size() == 2) {
        Operator op = row(item);
        op.label = label_of(item.parts[2].parts[1]);
        rows_[place(item.parts[1])][to_integer(item.parts[2].parts[0].word())].push_back(std::move(op));
    } else if (key == "fail" && size == 2 && !fail_) {
        fail_ = compile(item.parts[1]);
    } else if (key == "goal" && size == 2 && !goal_) {
        goal_ = compile(item.parts[1]);
    } else if (key == "starts" && !has_start_) {
        has_start_ = true;
        for (size_t k = 1; k < size; ++k) {
            if (!item.parts[k].is_list || item.parts[k].parts.size() != count_) throw Unhandled("a start state of another size");
            Cells& state = listed_starts_.emplace_back(count_);
            for (uint32_t v = 0; v < count_; ++v) {
                const std::string& word = item.parts[k].parts[v].word();
                const Number value = is_double(word) ? Number{true, {.d = to_double(word)}} : integer(to_integer(word));
                if (!put(v, value, state[v])) throw Unhandled("a start state outside of the bounds");
            }
        }
    } else if (key == "start" && !has_start_) {
        has_start_ = true;
        std::vector<bool> seen(variables_.size());
        for (size_t k = 1; k < size; ++k) {
            const std::vector<Item>& parts = item.parts[k].parts;
            if (parts.size() < 3) throw Unhandled("a start item without a range");
            Range range{place(parts[0]), true, true, {}, {}, {}};
            const bool is_real = variables_[range.place].is_real;
            const auto end = [&](const Item& word, bool& has, Cell& cell) {
                has = word.word() != "*";
                if (!has) return;
                const Number value =
                    is_real || is_double(word.text) ? Number{true, {.d = to_double(word.text)}} : integer(to_integer(word.text));
                if (!put(range.place, value, cell)) throw Unhandled("a start range outside of the bounds");
            };
            end(parts[1], range.has_low, range.low);
            end(parts[2], range.has_high, range.high);
            if (seen[range.place] || range.place >= count_) throw Unhandled("a start item names a variable twice");
            seen[range.place] = true;
            for (size_t c = 3; c < parts.size(); ++c) {
                range.conditions.push_back(compile(parts[c]));
                std::vector<const Expression*> pending{range.conditions.back().get()};
                while (!pending.empty()) {
                    const Expression* part = pending.back();
                    pending.pop_back();
                    if (part->op == Op::PLACE && !seen[size_t(part->i)])
                        throw Unhandled("a start condition reads a variable that comes later");
                    for (const Expr& child : part->parts) pending.push_back(child.get());
                }
            }
            ranges_.push_back(std::move(range));
        }
        if (ranges_.size() != count_) throw Unhandled("the start item does not name each variable");
    } else if (key == "meaning" && meaning_.empty()) {
        for (size_t k = 1; k < size; ++k) {
            const std::vector<Item>& parts = item.parts[k].parts;
            if (parts.empty()) throw Unhandled("an empty part of the meaning");
            std::vector<std::string>& words = meaning_[parts[0].word()];
            for (size_t w = 1; w < parts.size(); ++w) words.push_back(parts[w].word().substr(parts[w].text[0] == '"'));
        }
    } else if (key == "policy" && policy_.empty() && size > 1) {
        policy_.assign(item.parts.begin() + 1, item.parts.end());
    } else {
        throw Unhandled("the item " + key + " is not known, or stands twice");
    }
}

// -- what may happen

bool World::put(uint32_t place, Number value, Cell& cell) const {
    const Variable& variable = variables_[place];
    if (variable.is_real) {
        cell.d = real_of(value) + 0.0;
        return !(variable.has_low && cell.d < variable.low.d) && !(variable.has_high && cell.d > variable.high.d);
    }
    if (value.is_real) throw Doubt{};
    cell.i = value.cell.i;
    return !(variable.has_low && cell.i < variable.low.i) && !(variable.has_high && cell.i > variable.high.i);
}

void World::fire(const Operator& op, const Cell* full, Moves& moves) const {
    if (!is_true(*op.guard, full)) return;
    const size_t weights = moves.weights.size(), states = moves.states.size();
    std::vector<Ratio> shares;
    bool is_any = false;
    for (const Branch& branch : op.branches) {
        shares.push_back(weight_of(*branch.weight, full));
        if (shares.back().top < 0) throw Doubt{};
        is_any |= shares.back().top > 0;
    }
    if (!is_any) throw Doubt{};
    Cells before, after;
    for (size_t k = 0; k < op.branches.size(); ++k) {
        if (shares[k].top == 0) continue;
        after.assign(full, full + variables_.size());
        for (const Stage& stage : op.branches[k].stages) {
            before = after;
            for (size_t a = 0; a < stage.size(); ++a) {
                for (size_t b = 0; b < a; ++b)
                    if (stage[a].place == stage[b].place) throw Doubt{};
                if (!put(stage[a].place, evaluate(*stage[a].value, before.data()), after[stage[a].place])) {
                    if (!disables_) throw Doubt{};
                    moves.weights.resize(weights);
                    moves.states.resize(states);
                    return;
                }
            }
        }
        moves.weights.push_back(shares[k]);
        moves.states.insert(moves.states.end(), after.begin(), after.begin() + long(count_));
    }
    moves.moves.push_back({op.label, uint32_t(weights), uint32_t(moves.weights.size())});
}

void World::expand(const Cell* state, Moves& moves) const {
    moves.moves.clear();
    moves.weights.clear();
    moves.states.clear();
    Cells full(state, state + count_);
    full.insert(full.end(), scratch_.begin(), scratch_.end());
    if (tested_) {
        const auto found = by_value_.find(state[*tested_].i);
        for (const uint32_t k : found == by_value_.end() ? others_ : found->second) fire(operators_[k], full.data(), moves);
    } else {
        for (const Operator& op : operators_) fire(op, full.data(), moves);
    }
    for (const auto& [table, rows] : rows_)
        if (const auto found = rows.find(state[table].i); found != rows.end())
            for (const Operator& op : found->second) fire(op, full.data(), moves);
    if (!is_chance_ || moves.moves.empty()) return;
    for (const Moves::Move& move : moves.moves) {
        Ratio sum;
        for (uint32_t k = move.begin; k < move.end; ++k)
            sum = lowest(__int128(sum.top) * moves.weights[k].bottom + __int128(moves.weights[k].top) * sum.bottom,
                         __int128(sum.bottom) * moves.weights[k].bottom);
        for (uint32_t k = move.begin; k < move.end; ++k)
            moves.weights[k] = lowest(__int128(moves.weights[k].top) * sum.bottom, __int128(moves.weights[k].bottom) * sum.top);
    }
    moves.moves = {{SILENT, 0, uint32_t(moves.weights.size())}};
}

}  // namespace polvet::judging
