// Bounds of a tree ensemble's scores over a box: reachable leaves, summed in tree order; see boxes.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "boxes/boxes.h"

namespace polvet::boxes {

namespace {

class TreeBounds final : public Bounds {
public:
    TreeBounds(const Trees& trees, const std::vector<int32_t>& inputs, size_t variables)
        : trees_(trees), inputs_(inputs), variables_(variables) {}

    void judge(Box& box, const std::vector<const Row*>&, int32_t output, const std::vector<Relation>& rivals, Verdict& out) override {
        const size_t outputs = trees_.outputs;
        score(box);
        const size_t mine = static_cast<size_t>(output);
        double closest = std::numeric_limits<double>::infinity();
        size_t rival = outputs;
        for (size_t m = 0; m < outputs; ++m) {
            if (m == mine || rivals[m] == Relation::OUTSIDE) continue;
            const bool beaten = beats(m, mine);
            if (beaten && rivals[m] == Relation::INSIDE) {
                out.excluded = true;
                return;
            }
            if (beaten) {
                out.beaten_by = static_cast<int32_t>(m);
                continue;
            }
            if (rivals[m] == Relation::INSIDE && high_[mine] - low_[m] < closest) {
                closest = high_[mine] - low_[m];
                rival = m;
            }
        }
        choose_cut(box, mine, rival, out);
    }

    bool wins(const Box& box, const std::vector<const Row*>&, int32_t output, const std::vector<Relation>& rivals) override {
        score(box);
        const size_t mine = static_cast<size_t>(output);
        for (size_t m = 0; m < trees_.outputs; ++m)
            if (m != mine && rivals[m] != Relation::OUTSIDE && !beats(mine, m)) return false;
        return true;
    }

private:
    // SOUND: a rounded sum grows with each summand, so the least leaves in tree order give the least score, bit for bit.
    bool beats(size_t winner, size_t loser) const {
        return high_[loser] < low_[winner] || (high_[loser] == low_[winner] && winner < loser);
    }

    // Bounds on every output's score over the box, and the cuts that wait inside it.
    void score(const Box& box) {
        const size_t outputs = trees_.outputs;
        low_.assign(outputs, 0);
        high_.assign(outputs, 0);
        cuts_.clear();
        for (size_t k = 0; k < outputs; ++k) low_[k] = high_[k] = trees_.wide ? trees_.base64[k] : static_cast<double>(trees_.base32[k]);
        for (size_t t = 0; t < trees_.roots.size(); ++t) {
            const int32_t mine = trees_.tree_output[t];
            leaf_low_.assign(outputs, std::numeric_limits<double>::infinity());
            leaf_high_.assign(outputs, -std::numeric_limits<double>::infinity());
            walk(trees_.roots[t], box, mine);
            if (mine >= 0) add(static_cast<size_t>(mine));
            else
                for (size_t k = 0; k < outputs; ++k) add(k);
        }
        if (trees_.divisor != 0)
            for (size_t k = 0; k < outputs; ++k) {
                low_[k] = divide(low_[k]);
                high_[k] = divide(high_[k]);
                if (low_[k] > high_[k]) std::swap(low_[k], high_[k]);
            }
    }

    // Leaves that some state of the box reaches; returns the spread of the subtree's values for weighing cuts.
    void walk(int32_t node, const Box& box, int32_t output) {
        pending_.assign(1, {node, 1.0});
        while (!pending_.empty()) {
            const auto [at, weight] = pending_.back();
            pending_.pop_back();
            const Trees::Node& n = trees_.nodes[static_cast<size_t>(at)];
            if (n.threshold != n.threshold) {
                if (output >= 0) note(static_cast<size_t>(output), value(n.payload));
                else
                    for (size_t k = 0; k < trees_.outputs; ++k) note(k, value(n.payload + static_cast<int32_t>(k)));
                continue;
            }
            const size_t v = static_cast<size_t>(inputs_[static_cast<size_t>(n.feature)]);
            const int64_t cut = left_end(n.threshold, box.lower[v], box.upper[v]);  // x goes left iff x <= cut
            bool left = cut >= box.lower[v], right = cut < box.upper[v];
            if (static_cast<Missing>(n.payload >> 1) == Missing::zero && box.lower[v] <= 0 && box.upper[v] >= 0) {
                if (n.payload & 1) left = true;
                else right = true;
            }
            if (left && right && cut >= box.lower[v] && cut < box.upper[v]) cuts_.push_back({static_cast<int32_t>(v), cut, output, weight});
            if (left) pending_.push_back({n.left, weight * 0.5});
            if (right) pending_.push_back({n.left + 1, weight * 0.5});
        }
    }

    // The greatest integer of low - 1 .. high whose float32 passes the test; the float32 of an integer grows with it.
    int64_t left_end(float threshold, int64_t low, int64_t high) const {
        auto passes = [&](int64_t x) {
            const float f = static_cast<float>(static_cast<double>(x));
            return trees_.strict ? f < threshold : f <= threshold;
        };
        if (!passes(low)) return low - 1;
        if (passes(high)) return high;
        int64_t guess = static_cast<int64_t>(std::floor(static_cast<double>(threshold)));
        guess = std::clamp(guess, low, high - 1);
        if (passes(guess) && !passes(guess + 1)) return guess;
        if (guess > low && passes(guess - 1) && !passes(guess)) return guess - 1;
        int64_t a = low, b = high;  // passes(a), not passes(b)
        while (b - a > 1) {
            const int64_t middle = a + (b - a) / 2;
            (passes(middle) ? a : b) = middle;
        }
        return a;
    }

    double value(int32_t place) const {
        return trees_.wide ? trees_.values64[static_cast<size_t>(place)] : static_cast<double>(trees_.values32[static_cast<size_t>(place)]);
    }
    void note(size_t k, double x) {
        leaf_low_[k] = std::min(leaf_low_[k], x);
        leaf_high_[k] = std::max(leaf_high_[k], x);
    }
    void add(size_t k) {
        low_[k] = sum(low_[k], leaf_low_[k]);
        high_[k] = sum(high_[k], leaf_high_[k]);
    }
    double sum(double x, double y) const {
        return trees_.wide ? x + y : static_cast<double>(static_cast<float>(x) + static_cast<float>(y));
    }
    double divide(double x) const {
        return trees_.wide ? x / trees_.divisor : static_cast<double>(static_cast<float>(x) / static_cast<float>(trees_.divisor));
    }

    // The split that most trees of the two outputs wait for, upper nodes first.
    void choose_cut(const Box& box, size_t mine, size_t rival, Verdict& out) {
        weights_.clear();
        double best = 0;
        for (const Cut& cut : cuts_) {
            const bool counts = cut.output < 0 || static_cast<size_t>(cut.output) == mine || static_cast<size_t>(cut.output) == rival;
            double& weight = weights_[(static_cast<uint64_t>(cut.variable) << 40) ^ static_cast<uint64_t>(cut.value + (int64_t{1} << 38))];
            weight += cut.weight * (counts ? 1.0 : 0.01);
            if (weight > best) {
                best = weight;
                out.split_variable = cut.variable;
                out.split_value = cut.value;
            }
        }
        out.candidate.resize(variables_);
        for (size_t v = 0; v < variables_; ++v) out.candidate[v] = box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
    }

    struct Cut {
        int32_t variable;
        int64_t value;
        int32_t output;
        double weight;
    };
    struct Pending {
        int32_t node;
        double weight;
    };
    const Trees& trees_;
    const std::vector<int32_t>& inputs_;
    size_t variables_;
    std::vector<double> low_, high_, leaf_low_, leaf_high_;
    std::vector<Cut> cuts_;
    std::vector<Pending> pending_;
    std::unordered_map<uint64_t, double> weights_;
};

}  // namespace

std::unique_ptr<Bounds> tree_bounds(const Trees& trees, const std::vector<int32_t>& inputs, size_t variables) {
    return std::make_unique<TreeBounds>(trees, inputs, variables);
}

}  // namespace polvet::boxes
