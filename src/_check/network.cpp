#include "network.h"

#include <algorithm>
#include <cmath>

namespace polvet::judging {

namespace {

struct Unknown {};  // a value may be too large to say anything

constexpr double U = 0x1p-24, FLUSHED = 0x1p-126, OUTWARD = 1 + 0x1p-30, LIBRARY = 0x1p-44, ENCLOSURE = 0x1p-20, LARGEST = 0x1p125;

struct Tape {
    std::vector<double> at, off;
    std::vector<int> grain;  // of what is exact: the value is a multiple of 2^grain

    void add(double value, double distance) {
        if (!(std::fabs(value) + distance < LARGEST)) throw Unknown{};
        at.push_back(value);
        off.push_back(distance);
        grain.push_back(grain_of(value));
    }
    static int grain_of(double value) {
        if (value == 0) return 4000;
        int exponent;
        int64_t digits = int64_t(std::ldexp(std::frexp(value, &exponent), 53));
        return exponent - 53 + __builtin_ctzll(uint64_t(digits < 0 ? -digits : digits));
    }
};

// What so many roundings may add to a sum of that size (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
double rounded(double roundings, double size) {
    if (roundings >= 0x1p20) throw Unknown{};
    return (roundings * U / (1 - roundings * U) * size + roundings * FLUSHED + roundings * 0x1p-52 * size) * OUTWARD;
}

struct Row {
    double bias, size;
    std::vector<uint32_t> reads;
    std::vector<double> weights;
    std::vector<int> grains;
};

struct Affine {
    double roundings;
    std::vector<Row> rows;

    void run(Tape& tape) const {
        for (const Row& row : rows) {
            double sum = row.bias, size = row.size, moved = 0, terms = 0;
            int lowest = Tape::grain_of(row.bias);
            for (size_t k = 0; k < row.reads.size(); ++k) {
                const double x = tape.at[row.reads[k]], d = tape.off[row.reads[k]], w = row.weights[k];
                if (x == 0 && d == 0) continue;
                terms += 1;
                sum += w * x;
                size += std::fabs(w) * (std::fabs(x) + d);
                moved += std::fabs(w) * d;
                if (w != 0) lowest = std::min(lowest, row.grains[k] + tape.grain[row.reads[k]]);
            }
            if (!(size < LARGEST)) throw Unknown{};
            // SOUND: then every order of summation is exact, in float32 and in the doubles here.
            const bool exact = moved == 0 && roundings == 0 && row.size == std::fabs(row.bias) && lowest >= -126 &&
                               size <= std::ldexp(1.0, std::min(lowest, 900) + 24);
            tape.add(sum, exact ? 0 : (moved + rounded(terms + 1 + roundings, size)) * OUTWARD);
        }
    }
};

struct Product {
    double roundings;
    std::vector<std::pair<uint32_t, uint32_t>> pairs;

    void run(Tape& tape) const {
        for (auto [c, d] : pairs) {
            const double x = tape.at[c], dx = tape.off[c], y = tape.at[d], dy = tape.off[d];
            const double size = (std::fabs(x) + dx) * (std::fabs(y) + dy) * OUTWARD;
            tape.add(x * y, (std::fabs(x) * dy + std::fabs(y) * dx + dx * dy + rounded(roundings + 1, size)) * OUTWARD);
        }
    }
};

double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double normal(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
constexpr double PI = 3.141592653589793;
double gelu_inner(double x) { return 2 * std::sqrt(2 / PI) * (x + 0.044715 * x * x * x); }
double positive(double x) {
    if (!(x > 0)) throw Unknown{};
    return x;
}

// A smooth unit: its value; at least the size of its slope within d of x; how far a library may be off, in parts of 2^-20.
struct Smooth {
    std::string_view name;
    double (*value)(double x, double a, double b);
    double (*slope)(double x, double d, double a, double b);
    double (*share)(double x, double y, double a, double b);
};
double of_one(double, double, double, double) { return 1; }
double of_size(double x, double, double, double) { return std::max(1.0, std::fabs(x)); }
double of_value(double, double y, double, double) { return std::fabs(y); }
const Smooth UNITS[] = {
    {"tanh", [](double x, double, double) { return std::tanh(x); },
     [](double x, double d, double, double) { return std::fabs(1 - std::tanh(x) * std::tanh(x)) + 0.78 * d; }, of_one},
    {"sigmoid", [](double x, double, double) { return logistic(x); },
     [](double x, double d, double, double) { return logistic(x) * logistic(-x) + 0.097 * d; }, of_one},
    {"erf", [](double x, double, double) { return std::erf(x); },
     [](double x, double d, double, double) { return 2 / std::sqrt(PI) * std::exp(-x * x) + 0.97 * d; }, of_one},
    {"softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); },
     [](double x, double d, double, double) { return std::pow(1 + std::fabs(x), -2.0) + 2 * d; }, of_one},
    {"softplus", [](double x, double, double) { return softplus(x); },
     [](double x, double d, double, double) { return logistic(x) + 0.26 * d; }, of_size},
    {"silu", [](double x, double, double) { return x * logistic(x); },
     [](double x, double d, double, double) { return std::fabs(logistic(x) * (1 + x * logistic(-x))) + 0.51 * d; }, of_size},
    {"gelu", [](double x, double, double) { return x * normal(x); },
     [](double x, double d, double, double) { return std::fabs(normal(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * PI)) + 0.8 * d; },
     of_size},
    {"gelu_tanh", [](double x, double, double) { return x * logistic(gelu_inner(x)); },
     [](double x, double d, double, double) {
         const double s = logistic(gelu_inner(x)), rest = logistic(-gelu_inner(x));
         return std::fabs(s + x * s * rest * 2 * std::sqrt(2 / PI) * (1 + 3 * 0.044715 * x * x)) + 0.9 * d;
     },
     of_size},
    {"mish", [](double x, double, double) { return x * std::tanh(softplus(x)); },
     [](double x, double d, double, double) {
         const double t = std::tanh(softplus(x));
         return std::fabs(t + x * logistic(x) * (1 - t) * (1 + t)) + 0.66 * d;
     },
     of_size},
    {"hard_swish", [](double x, double, double) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; },
     [](double, double, double, double) { return 1.5; }, of_size},
    {"elu", [](double x, double a, double b) { return x > 0 ? b * x : a * b * std::expm1(x); },
     [](double x, double d, double a, double b) {
         return std::max(x + d >= 0 ? std::fabs(b) : 0.0, x <= d ? std::fabs(a * b) * std::exp(std::min(0.0, x + d)) : 0.0);
     },
     [](double x, double, double a, double b) { return std::max(1.0, std::fabs(x)) * std::max({1.0, std::fabs(b), std::fabs(a * b)}); }},
    {"leaky", [](double x, double a, double) { return x > 0 ? x : a * x; },
     [](double, double, double a, double) { return std::max(1.0, std::fabs(a)); },
     [](double x, double, double a, double) { return std::fabs(a * x) / 8; }},
    {"exp", [](double x, double, double) { return std::exp(x); }, [](double x, double d, double, double) { return std::exp(x + d); },
     [](double, double y, double, double) { return std::max(1.0, y); }},
    {"square", [](double x, double, double) { return x * x; }, [](double x, double d, double, double) { return 2 * (std::fabs(x) + d); },
     of_value},
    {"sqrt", [](double x, double, double) { return std::sqrt(positive(x)); },
     [](double x, double d, double, double) { return 0.5 / std::sqrt(positive(x - d)); }, of_value},
    {"reciprocal", [](double x, double, double) { return 1 / x; },
     [](double x, double d, double, double) { return std::pow(positive(std::fabs(x) - d), -2.0); }, of_value},
};

struct Apply {
    struct Entry {
        uint32_t column;
        double a, b;
    };
    std::string name;
    const Smooth* smooth = nullptr;
    std::vector<Entry> entries;

    void run(Tape& tape) const {
        for (const Entry& e : entries) {
            const double x = tape.at[e.column], d = tape.off[e.column];
            if (smooth) {
                const double reach = d * (1 + LIBRARY) + std::fabs(x) * LIBRARY, y = smooth->value(x, e.a, e.b),
                             far = x + std::copysign(reach, x);
                const double moved = (smooth->slope(x, reach, e.a, e.b) + LIBRARY) * reach;
                const double share = std::max(smooth->share(x, y, e.a, e.b), smooth->share(far, smooth->value(far, e.a, e.b), e.a, e.b));
                tape.add(y, (moved + ENCLOSURE * (share + moved) + 0x1p-120) * (1 + LIBRARY) + LIBRARY * (std::fabs(y) + std::fabs(x)));
            } else if (name == "abs") {
                tape.add(std::fabs(x), d);
            } else if (name == "equal") {
                const double low = std::trunc(x - d * OUTWARD), high = std::trunc(x + d * OUTWARD);
                tape.add(low == e.a || low == e.b ? 1 : 0, low == high ? 0 : 1);
            } else {
                const double low = std::nextafter(x - d, -INFINITY), high = std::nextafter(x + d, INFINITY),
                             cut = std::min(std::max(x, e.a), e.b);
                const double to_high = std::min(std::max(high, e.a), e.b) - cut, to_low = cut - std::min(std::max(low, e.a), e.b);
                tape.add(cut, d == 0 ? 0 : std::max(to_high, to_low) * OUTWARD);
            }
        }
    }
};

struct Node {
    std::function<void(Tape&)> run;
};

uint32_t column(const Item& word, size_t width) {
    const int64_t value = to_integer(word.word());
    if (value < 0 || size_t(value) >= width) throw Unhandled("a network reads a column that does not come before");
    return uint32_t(value);
}

Affine affine(const std::vector<Item>& parts, size_t width) {
    Affine made{double(to_integer(parts.at(1).word())), {}};
    std::vector<uint32_t> shared;
    const bool is_shared = parts.size() > 2 && parts[2].is("reads");
    for (size_t k = 1; is_shared && k < parts[2].parts.size(); ++k) shared.push_back(column(parts[2].parts[k], width));
    for (size_t r = is_shared ? 3 : 2; r < parts.size(); ++r) {
        const std::vector<Item>& words = parts[r].parts;
        if (!parts[r].is("row") || words.size() < 3) throw Unhandled("a part that is not a row of weights");
        Row row{to_double(words[1].word()), to_double(words[2].word()), shared, {}, {}};
        for (size_t k = 3; k < words.size(); ++k) {
            if (is_shared) {
                row.weights.push_back(to_double(words[k].word()));
            } else {
                row.reads.push_back(column(words[k].parts.at(0), width));
                row.weights.push_back(to_double(words[k].parts.at(1).word()));
            }
            row.grains.push_back(Tape::grain_of(row.weights.back()));
        }
        if (row.weights.size() != row.reads.size()) throw Unhandled("a row without one weight for each column");
        made.rows.push_back(std::move(row));
    }
    return made;
}

}  // namespace

std::function<void(const Cell*, const std::vector<uint32_t>&, std::vector<uint32_t>&)> network_scorer(const World& world,
                                                                                                      const std::vector<Item>& parts,
                                                                                                      size_t outputs) {
    const auto row = row_of(world, parts);
    std::vector<Node> nodes;
    std::vector<uint32_t> columns;
    bool softmax = false;
    size_t width = 0;
    for (const Item& part : parts)
        if (part.is("inputs")) width = part.parts.size() - 1;
    for (const Item& part : parts) {
        if (part.is("affine")) {
            auto made = affine(part.parts, width);
            width += made.rows.size();
            nodes.push_back({[made](Tape& tape) { made.run(tape); }});
        } else if (part.is("product")) {
            Product made{double(to_integer(part.parts.at(1).word())), {}};
            for (size_t k = 2; k < part.parts.size(); ++k)
                made.pairs.emplace_back(column(part.parts[k].parts.at(0), width), column(part.parts[k].parts.at(1), width));
            width += made.pairs.size();
            nodes.push_back({[made](Tape& tape) { made.run(tape); }});
        } else if (part.is("apply")) {
            Apply made{part.parts.at(1).word(), nullptr, {}};
            for (const Smooth& unit : UNITS)
                if (unit.name == made.name) made.smooth = &unit;
            if (!made.smooth && made.name != "clip" && made.name != "abs" && made.name != "equal") throw Unhandled("no unit " + made.name);
            for (size_t k = 2; k < part.parts.size(); ++k) {
                const std::vector<Item>& words = part.parts[k].parts;
                const auto end = [&](size_t at, double none) {
                    return words.at(at).word() == "*" ? (made.smooth ? 0 : none) : to_double(words[at].text);
                };
                made.entries.push_back({column(words.at(0), width), end(1, -INFINITY), end(2, INFINITY)});
            }
            width += made.entries.size();
            nodes.push_back({[made](Tape& tape) { made.run(tape); }});
        } else if (part.is("scores")) {
            for (size_t k = 1; k < part.parts.size(); ++k) columns.push_back(column(part.parts[k], width));
        } else if (part.is("softmax")) {
            softmax = true;
        }
    }
    if (columns.size() != outputs) throw Unhandled("the network does not have one score per output");
    return [=](const Cell* state, const std::vector<uint32_t>& candidates, std::vector<uint32_t>& best) {
        std::vector<float> values;
        row(state, values);
        Tape tape;
        std::vector<double> low(outputs), high(outputs);
        try {
            for (const float value : values) tape.add(value, 0);
            for (const Node& node : nodes) node.run(tape);
            double top = -INFINITY;
            for (size_t k = 0; k < outputs; ++k) {
                const double at = tape.at[columns[k]], off = tape.off[columns[k]];
                low[k] = off == 0 ? at : std::nextafter(at - off, -INFINITY);
                high[k] = off == 0 ? at : std::nextafter(at + off, INFINITY);
                top = std::max(top, high[k]);
            }
            for (size_t k = 0; softmax && k < outputs; ++k) {
                const double size = std::max(std::fabs(low[k]), std::fabs(high[k])), behind = (top - low[k]) * OUTWARD;
                const double slack = std::max(0x1p-20 * std::max({size, behind, 1.0}), behind - 70) * OUTWARD;
                low[k] -= slack, high[k] += slack;
            }
        } catch (const Unknown&) {
            best = candidates;
            return;
        }
        best.clear();
        for (const uint32_t k : candidates)
            if (std::none_of(candidates.begin(), candidates.end(),
                             [&](uint32_t i) { return i != k && (high[k] < low[i] || (high[k] == low[i] && i < k)); }))
                best.push_back(k);
    };
}

}  // namespace polvet::judging
