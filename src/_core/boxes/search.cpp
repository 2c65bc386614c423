// The search that answers one question: shrink the box by rows, try states, bound the policy, split what is left.
//
// Source   as boxes.h says; branch and bound as in Bunel et al., Branch and bound for piecewise linear neural network verification, JMLR 2020.
// Differs  a box is cut where a rival that surely wins becomes applicable, and along boxes that do not count, before the bounds choose.
#include <algorithm>
#include <random>

#include "boxes/boxes.h"

namespace polvet {

namespace {

class Search {
public:
    Search(const BoxSystem& system, const BoxQuestion& question, uint64_t seed, const Budget& budget)
        : system_(system), question_(question), budget_(budget), random_(seed * 0x9e3779b97f4a7c15u + 1) {}

    Outcome run() {
        Node root{question_.box, {}, {}};
        for (size_t k = 0; k < question_.without_boxes.size(); ++k)
            if (question_.without_boxes[k]->meets(root.box)) root.open.push_back(uint32_t(k));
        stack_.push_back(std::move(root));
        bool first = true;
        while (!stack_.empty()) {
            if (++outcome_.nodes > budget_.nodes || (outcome_.nodes % 16 == 0 && budget_.over())) {
                outcome_.answer = BoxAnswer::UNKNOWN;
                return outcome_;
            }
            Node node = std::move(stack_.back());
            stack_.pop_back();
            if (!reduce(node)) continue;
            if (node.box.count() <= system_.enumerated) {
                if (enumerate(node.box)) return outcome_;
                continue;
            }
            for (int k = 0; k < (first ? SAMPLES : 1); ++k)
                if (sample(node.box)) return outcome_;
            first = false;
            if (divide(node)) return outcome_;
        }
        if (!near_.empty()) {
            outcome_.answer = BoxAnswer::NEAR_TIE;
            outcome_.state = near_;
        }
        return outcome_;
    }

private:
    struct Node {
        Box box;
        std::vector<uint32_t> open;
        std::vector<double> known;
    };  // open: boxes without, that meet this one
    static constexpr int SAMPLES = 12;

    // Shrink by rows and by boxes that do not count; false if nothing is left.
    bool reduce(Node& node) {
        for (int round = 0; round < 4; ++round) {
            if (!contract(node.box, question_.rows)) return false;
            bool changed = false;
            size_t kept = 0;
            for (const uint32_t k : node.open) {
                const Box& out = *question_.without_boxes[k];
                size_t partly = 0, where = 0;
                bool apart = false;
                for (size_t v = 0; v < node.box.lower.size(); ++v) {
                    if (out.lower[v] > node.box.upper[v] || out.upper[v] < node.box.lower[v]) {
                        apart = true;
                        break;
                    }
                    if (out.lower[v] > node.box.lower[v] || out.upper[v] < node.box.upper[v]) {
                        ++partly;
                        where = v;
                    }
                }
                if (apart) continue;
                if (partly == 0) return false;
                node.open[kept++] = k;
                if (partly > 1) continue;
                if (out.lower[where] <= node.box.lower[where]) {
                    node.box.lower[where] = out.upper[where] + 1;
                    changed = true;
                    --kept;
                } else if (out.upper[where] >= node.box.upper[where]) {
                    node.box.upper[where] = out.lower[where] - 1;
                    changed = true;
                    --kept;
                }
            }
            node.open.resize(kept);
            if (!changed) break;
        }
        for (const Cell* cell : question_.without)
            if (relation(*cell, node.box) == Relation::INSIDE) return false;
        return true;
    }

    bool counts(const int64_t* x, const std::vector<uint32_t>* open = nullptr) const {
        for (const Row* row : question_.rows)
            if (!row->holds(x)) return false;
        for (const Cell* cell : question_.without)
            if (cell->holds(x)) return false;
        if (open) {
            for (const uint32_t k : *open)
                if (question_.without_boxes[k]->holds(x)) return false;
        } else
            for (const Box* box : question_.without_boxes)
                if (box->holds(x)) return false;
        return true;
    }

    // True if the search is over: the state counts and the output is the reference choice there.
    bool accept(const int64_t* x) {
        const BoxAnswer answer = question_.output < 0 ? BoxAnswer::YES : system_.chooses(x, question_.output);
        if (answer == BoxAnswer::NEAR_TIE && near_.empty()) near_.assign(x, x + system_.variables);
        if (answer != BoxAnswer::YES) return false;
        outcome_.answer = BoxAnswer::YES;
        outcome_.state.assign(x, x + system_.variables);
        return true;
    }

    bool enumerate(const Box& box) {
        std::vector<int64_t> x = box.lower;
        for (;;) {
            if (counts(x.data()) && accept(x.data())) return true;
            size_t v = 0;
            while (v < x.size() && x[v] == box.upper[v]) {
                x[v] = box.lower[v];
                ++v;
            }
            if (v == x.size()) return false;
            ++x[v];
        }
    }

    bool sample(const Box& box) {
        point_.resize(system_.variables);
        for (size_t v = 0; v < point_.size(); ++v)
            point_[v] = box.lower[v] + int64_t(random_() % uint64_t(box.upper[v] - box.lower[v] + 1));
        return repair(box, point_) && counts(point_.data()) && accept(point_.data());
    }

    // Move the point inside the box until rows hold, one variable after the other.
    bool repair(const Box& box, std::vector<int64_t>& x) {
        for (int round = 0; round < 4; ++round) {
            bool fine = true;
            for (const Row* row : question_.rows) {
                Int128 value = row->value(x.data());
                const size_t count = row->terms.size();
                if (count == 0) continue;
                const size_t first = size_t(random_() % count);
                for (size_t i = 0; i < count; ++i) {
                    const bool low = row->lower != NO_LOWER && value < row->lower, high = row->upper != NO_UPPER && value > row->upper;
                    if (!low && !high) break;
                    fine = false;
                    const Summand& t = row->terms[(first + i) % count];
                    const size_t v = size_t(t.variable);
                    const Int128 missing = low ? row->lower - value : row->upper - value;
                    const Int128 a = t.coefficient;
                    Int128 move = missing / a;
                    if (move == 0) move = (missing > 0) == (a > 0) ? 1 : -1;
                    const int64_t moved = int64_t(std::clamp<Int128>(x[v] + move, box.lower[v], box.upper[v]));
                    value += a * (Int128(moved) - x[v]);
                    x[v] = moved;
                }
            }
            if (fine) return true;
        }
        return false;
    }

    // Bound the policy over the node, then split what is left; true if the search is over.
    bool divide(Node& node) {
        NodeVerdict verdict;
        const int32_t output = question_.output;
        if (output >= 0) {
            rivals_.assign(system_.scorer->outputs, Relation::INSIDE);
            if (system_.filtered)
                for (size_t m = 0; m < rivals_.size(); ++m) rivals_[m] = applicable(m, node.box);
            if (rivals_[size_t(output)] == Relation::OUTSIDE && system_.filtered) return false;
            if (!bounds_) bounds_ = system_.bounds(question_.box);
            const double before = node.box.count();
            verdict.known = std::move(node.known);
            bounds_->judge(node.box, question_.rows, output, rivals_, verdict);
            if (verdict.excluded) return false;
            node.known = std::move(verdict.known);
            if (!verdict.candidate.empty()) {
                point_ = verdict.candidate;
                for (size_t v = 0; v < point_.size(); ++v) point_[v] = std::clamp(point_[v], node.box.lower[v], node.box.upper[v]);
                if (repair(node.box, point_) && counts(point_.data()) && accept(point_.data())) return true;
            }
            if (node.box.count() < 0.5 * before || node.box.count() == 1) {
                stack_.push_back(std::move(node));
                return false;
            }
        }
        int32_t variable = -1;
        int64_t cut = 0;
        // A rival that wins wherever it is applicable: cut along its guard. Else boxes that take most of the node away.
        if (verdict.beaten_by >= 0) cut_along(system_.guards[size_t(verdict.beaten_by)], node.box, variable, cut);
        if (variable < 0) cut_off(node, variable, cut);
        if (variable < 0 && verdict.split_variable >= 0) {
            variable = verdict.split_variable;
            cut = verdict.split_value;
        }
        if (variable < 0)
            for (const Cell* cell : question_.without)
                if (cut_along_cell(*cell, node.box, variable, cut)) break;
        const size_t v = size_t(variable);
        if (variable < 0 || cut < node.box.lower[v] || cut >= node.box.upper[v]) widest(node.box, variable, cut);
        split(node, size_t(variable), cut, verdict);
        return false;
    }

    void split(Node& node, size_t v, int64_t cut, const NodeVerdict& verdict) {
        Node left{node.box, node.open, node.known};
        left.box.upper[v] = cut;
        node.box.lower[v] = cut + 1;
        const bool left_last = verdict.candidate.empty() || verdict.candidate[v] <= cut;
        if (left_last) {
            stack_.push_back(std::move(node));
            stack_.push_back(std::move(left));
        } else {
            stack_.push_back(std::move(left));
            stack_.push_back(std::move(node));
        }
    }

    Relation applicable(size_t output, const Box& box) const {
        Relation best = Relation::OUTSIDE;
        for (const Cell& cell : system_.guards[output]) {
            const Relation r = relation(cell, box);
            if (r == Relation::INSIDE) return r;
            if (r == Relation::MIXED) best = r;
        }
        return best;
    }

    // A face of the cell that cuts the box.
    static bool cut_along_cell(const Cell& cell, const Box& box, int32_t& variable, int64_t& cut) {
        if (relation(cell, box) != Relation::MIXED) return false;
        double best = 0;
        for (size_t v = 0; v < box.lower.size(); ++v) {
            const double width = double(box.upper[v] - box.lower[v]) + 1;
            if (cell.box.lower[v] > box.lower[v] && cell.box.lower[v] <= box.upper[v]) {
                const double part = double(cell.box.lower[v] - box.lower[v]) / width;
                if (part > best) {
                    best = part;
                    variable = int32_t(v);
                    cut = cell.box.lower[v] - 1;
                }
            }
            if (cell.box.upper[v] < box.upper[v] && cell.box.upper[v] >= box.lower[v]) {
                const double part = double(box.upper[v] - cell.box.upper[v]) / width;
                if (part > best) {
                    best = part;
                    variable = int32_t(v);
                    cut = cell.box.upper[v];
                }
            }
        }
        return best > 0;
    }

    static void cut_along(const std::vector<Cell>& cells, const Box& box, int32_t& variable, int64_t& cut) {
        for (const Cell& cell : cells)
            if (cut_along_cell(cell, box, variable, cut)) return;
    }

    // Cut along a box that does not count and takes more than half of the node.
    void cut_off(const Node& node, int32_t& variable, int64_t& cut) const {
        double best = 0.5;
        for (const uint32_t k : node.open) {
            const Box& out = *question_.without_boxes[k];
            double part = 1, narrowest = 1;
            int32_t at = -1;
            int64_t where = 0;
            for (size_t v = 0; v < node.box.lower.size(); ++v) {
                const int64_t low = std::max(out.lower[v], node.box.lower[v]), high = std::min(out.upper[v], node.box.upper[v]);
                const double share = (double(high - low) + 1) / (double(node.box.upper[v] - node.box.lower[v]) + 1);
                part *= share;
                if (share < narrowest) {
                    narrowest = share;
                    at = int32_t(v);
                    where = low > node.box.lower[v] ? low - 1 : high;
                }
            }
            if (at >= 0 && part > best) {
                best = part;
                variable = at;
                cut = where;
            }
        }
    }

    static void widest(const Box& box, int32_t& variable, int64_t& cut) {
        int64_t best = 0;
        for (size_t v = 0; v < box.lower.size(); ++v)
            if (box.upper[v] - box.lower[v] > best) {
                best = box.upper[v] - box.lower[v];
                variable = int32_t(v);
                cut = box.lower[v] + best / 2;
            }
    }

    const BoxSystem& system_;
    const BoxQuestion& question_;
    const Budget& budget_;
    std::mt19937_64 random_;
    std::unique_ptr<PolicyBounds> bounds_;
    std::vector<Node> stack_;
    std::vector<Relation> rivals_;
    std::vector<int64_t> point_, near_;
    Outcome outcome_;
};

}  // namespace

Outcome BoxSystem::find(const BoxQuestion& question, uint64_t seed, const Budget& budget) const {
    if (question.box.empty()) return {};
    return Search(*this, question, seed, budget).run();
}

}  // namespace polvet
