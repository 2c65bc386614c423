// PolicyBounds of a tree ensemble's scores over a box: reachable leaves, summed in tree order; see boxes.h.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "boxes/boxes.h"

namespace polvet {

// The trees over integer variables: a node asks whether a variable is at most `cut`, and every different question has a number.
struct PlainTrees {
    struct Node {
        int32_t variable;  // -1: a leaf
        int32_t left;      // the right child is left + 1
        int64_t cut;       // x goes left iff x <= cut
        int32_t question;
        int32_t payload;  // leaf: where its values start; inner: where 0 goes if it counts as missing (1 left, 0 right), else -1
    };
    struct Split {
        int32_t variable;
        int64_t cut;
    };
    const Trees& trees;
    std::vector<Node> nodes;
    std::vector<Split> questions;
};

namespace {

constexpr int64_t LEAST = -(int64_t{1} << 61), MOST = int64_t{1} << 61;  // their difference fits, too

// The greatest integer whose float32 passes the test; the float32 of an integer grows with it.
int64_t left_end(float threshold, bool strict) {
    auto passes = [&](int64_t x) {
        const float f = float(double(x));
        return strict ? f < threshold : f <= threshold;
    };
    if (!passes(LEAST)) return LEAST - 1;
    if (passes(MOST)) return MOST;
    int64_t a = LEAST, b = MOST;  // passes(a), not passes(b)
    while (b - a > 1) {
        const int64_t middle = a + (b - a) / 2;
        (passes(middle) ? a : b) = middle;
    }
    return a;
}

class TreeBounds final : public PolicyBounds {
public:
    TreeBounds(const PlainTrees& plain, size_t variables) : plain_(plain), trees_(plain.trees), variables_(variables) {
        weights_.assign(plain.questions.size(), 0);
    }

    void judge(Box& box, const std::vector<const Row*>&, int32_t output, const std::vector<Relation>& rivals, NodeVerdict& out) override {
        const size_t outputs = trees_.outputs;
        score(box);
        const size_t mine = size_t(output);
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
                out.beaten_by = int32_t(m);
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
        const size_t mine = size_t(output);
        for (size_t m = 0; m < trees_.outputs; ++m)
            if (m != mine && rivals[m] != Relation::OUTSIDE && !beats(mine, m)) return false;
        return true;
    }

private:
    // SOUND: a rounded sum grows with each summand, so the least leaves in tree order give the least score, bit for bit.
    bool beats(size_t winner, size_t loser) const {
        return high_[loser] < low_[winner] || (high_[loser] == low_[winner] && winner < loser);
    }

    // PolicyBounds on every output's score over the box, and the cuts that wait inside it.
    void score(const Box& box) {
        const size_t outputs = trees_.outputs;
        low_.assign(outputs, 0);
        high_.assign(outputs, 0);
        cuts_.clear();
        for (size_t k = 0; k < outputs; ++k) low_[k] = high_[k] = trees_.wide ? trees_.base64[k] : double(trees_.base32[k]);
        for (size_t t = 0; t < trees_.roots.size(); ++t) {
            const int32_t mine = trees_.tree_output[t];
            leaf_low_.assign(outputs, std::numeric_limits<double>::infinity());
            leaf_high_.assign(outputs, -std::numeric_limits<double>::infinity());
            walk(trees_.roots[t], box, mine);
            if (mine >= 0) add(size_t(mine));
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
            const PlainTrees::Node& n = plain_.nodes[size_t(at)];
            if (n.variable < 0) {
                if (output >= 0) note(size_t(output), value(n.payload));
                else
                    for (size_t k = 0; k < trees_.outputs; ++k) note(k, value(n.payload + int32_t(k)));
                continue;
            }
            const size_t v = size_t(n.variable);
            const int64_t low = box.lower[v], high = box.upper[v];
            bool left = n.cut >= low, right = n.cut < high;
            if (left && right) cuts_.push_back({n.question, output, weight});
            if (n.payload >= 0 && low <= 0 && high >= 0) (n.payload ? left : right) = true;
            if (left) pending_.push_back({n.left, weight * 0.5});
            if (right) pending_.push_back({n.left + 1, weight * 0.5});
        }
    }

    double value(int32_t place) const { return trees_.wide ? trees_.values64[size_t(place)] : double(trees_.values32[size_t(place)]); }
    void note(size_t k, double x) {
        leaf_low_[k] = std::min(leaf_low_[k], x);
        leaf_high_[k] = std::max(leaf_high_[k], x);
    }
    void add(size_t k) {
        low_[k] = sum(low_[k], leaf_low_[k]);
        high_[k] = sum(high_[k], leaf_high_[k]);
    }
    double sum(double x, double y) const { return trees_.wide ? x + y : double(float(x) + float(y)); }
    double divide(double x) const { return trees_.wide ? x / trees_.divisor : double(float(x) / float(trees_.divisor)); }

    // The split that most trees of the two outputs wait for, upper nodes first.
    void choose_cut(const Box& box, size_t mine, size_t rival, NodeVerdict& out) {
        double best = 0;
        int32_t question = -1;
        for (const Cut& cut : cuts_) {
            const bool counts = cut.output < 0 || size_t(cut.output) == mine || size_t(cut.output) == rival;
            double& weight = weights_[size_t(cut.question)];
            weight += cut.weight * (counts ? 1.0 : 0.01);
            if (weight > best) {
                best = weight;
                question = cut.question;
            }
        }
        for (const Cut& cut : cuts_) weights_[size_t(cut.question)] = 0;
        if (question >= 0) {
            out.split_variable = plain_.questions[size_t(question)].variable;
            out.split_value = plain_.questions[size_t(question)].cut;
        }
        out.candidate.resize(variables_);
        for (size_t v = 0; v < variables_; ++v) out.candidate[v] = box.lower[v] + (box.upper[v] - box.lower[v]) / 2;
    }

    struct Cut {
        int32_t question, output;
        double weight;
    };
    struct Pending {
        int32_t node;
        double weight;
    };
    const PlainTrees& plain_;
    const Trees& trees_;
    size_t variables_;
    std::vector<double> low_, high_, leaf_low_, leaf_high_;
    std::vector<Cut> cuts_;
    std::vector<Pending> pending_;
    std::vector<double> weights_;  // per question; all 0 between uses
};

}  // namespace

std::shared_ptr<const PlainTrees> make_plain(const Trees& trees, const std::vector<int32_t>& inputs) {
    auto plain = std::make_shared<PlainTrees>(PlainTrees{trees, {}, {}});
    std::map<std::pair<int32_t, int64_t>, int32_t> numbers;
    for (const Trees::Node& node : trees.nodes) {
        if (node.threshold != node.threshold) {
            plain->nodes.push_back({-1, 0, 0, -1, node.payload});
            continue;
        }
        const int32_t variable = inputs[size_t(node.feature)];
        const int64_t cut = left_end(node.threshold, trees.strict);
        const auto [at, fresh] = numbers.try_emplace({variable, cut}, int32_t(plain->questions.size()));
        if (fresh) plain->questions.push_back({variable, cut});
        const bool zero = static_cast<Missing>(node.payload >> 1) == Missing::zero;
        plain->nodes.push_back({variable, node.left, cut, at->second, zero ? node.payload & 1 : -1});
    }
    return plain;
}

std::unique_ptr<PolicyBounds> tree_bounds(const PlainTrees& plain, size_t variables) {
    return std::make_unique<TreeBounds>(plain, variables);
}

}  // namespace polvet
