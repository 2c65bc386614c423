// Cells and boxes of integers, and the search that answers a question about them; see boxes.h.
#include "boxes/boxes.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace polvet::boxes {

Wide Row::value(const int64_t* x) const {
    Wide sum = 0;
    for (const Term& t : terms) sum += static_cast<Wide>(t.coefficient) * x[t.variable];
    for (const Mark& m : marks)
        if (x[m.variable] == m.value) sum += m.coefficient;
    return sum;
}

bool Row::holds(const int64_t* x) const {
    const Wide sum = value(x);
    return (lower == NO_LOWER || sum >= lower) && (upper == NO_UPPER || sum <= upper);
}

bool Cell::holds(const int64_t* x) const {
    if (!box.holds(x)) return false;
    for (const Row& row : rows)
        if (!row.holds(x)) return false;
    for (const Cell& hole : holes)
        if (hole.holds(x)) return false;
    return true;
}

void span(const Row& row, const Box& box, Wide& low, Wide& high) {
    low = high = 0;
    for (const Term& t : row.terms) {
        const size_t v = static_cast<size_t>(t.variable);
        const Wide a = static_cast<Wide>(t.coefficient) * box.lower[v], b = static_cast<Wide>(t.coefficient) * box.upper[v];
        low += std::min(a, b);
        high += std::max(a, b);
    }
    for (const Mark& m : row.marks) {
        const size_t v = static_cast<size_t>(m.variable);
        if (m.value < box.lower[v] || m.value > box.upper[v]) continue;
        const bool fixed = box.lower[v] == box.upper[v];
        low += fixed || m.coefficient < 0 ? m.coefficient : 0;
        high += fixed || m.coefficient > 0 ? m.coefficient : 0;
    }
}

Relation relation(const Cell& cell, const Box& box) {
    bool inside = true;
    for (size_t v = 0; v < box.lower.size(); ++v) {
        if (box.lower[v] > cell.box.upper[v] || box.upper[v] < cell.box.lower[v]) return Relation::OUTSIDE;
        inside = inside && box.lower[v] >= cell.box.lower[v] && box.upper[v] <= cell.box.upper[v];
    }
    for (const Row& row : cell.rows) {
        Wide low, high;
        span(row, box, low, high);
        if ((row.lower != NO_LOWER && high < row.lower) || (row.upper != NO_UPPER && low > row.upper)) return Relation::OUTSIDE;
        inside = inside && (row.lower == NO_LOWER || low >= row.lower) && (row.upper == NO_UPPER || high <= row.upper);
    }
    for (const Cell& hole : cell.holes) {
        const Relation r = relation(hole, box);
        if (r == Relation::INSIDE) return Relation::OUTSIDE;
        inside = inside && r == Relation::OUTSIDE;
    }
    return inside ? Relation::INSIDE : Relation::MIXED;
}

namespace {

Wide floor_div(Wide a, Wide b) {
    const Wide q = a / b;
    return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

}  // namespace

bool contract(Box& box, const std::vector<const Row*>& rows) {
    bool changed = true;
    for (int round = 0; changed && round < 8; ++round) {
        changed = false;
        for (const Row* row : rows) {
            Wide low, high;
            span(*row, box, low, high);
            if ((row->lower != NO_LOWER && high < row->lower) || (row->upper != NO_UPPER && low > row->upper)) return false;
            const bool tight_low = row->lower != NO_LOWER && low < row->lower, tight_high = row->upper != NO_UPPER && high > row->upper;
            if (!tight_low && !tight_high) continue;
            for (const Term& t : row->terms) {
                const size_t v = static_cast<size_t>(t.variable);
                if (box.lower[v] == box.upper[v]) continue;
                const Wide a = t.coefficient, x = a * box.lower[v], y = a * box.upper[v], least = std::min(x, y), most = std::max(x, y);
                int64_t new_low = box.lower[v], new_high = box.upper[v];
                if (tight_high) {  // a x <= upper - (low - least)
                    const Wide room = static_cast<Wide>(row->upper) - (low - least);
                    if (a > 0) new_high = static_cast<int64_t>(std::min<Wide>(new_high, floor_div(room, a)));
                    else new_low = static_cast<int64_t>(std::max<Wide>(new_low, -floor_div(room, -a)));
                }
                if (tight_low) {  // a x >= lower - (high - most)
                    const Wide room = static_cast<Wide>(row->lower) - (high - most);
                    if (a > 0) new_low = static_cast<int64_t>(std::max<Wide>(new_low, -floor_div(-room, a)));
                    else new_high = static_cast<int64_t>(std::min<Wide>(new_high, floor_div(-room, -a)));
                }
                if (new_low > new_high) return false;
                if (new_low != box.lower[v] || new_high != box.upper[v]) {
                    box.lower[v] = new_low;
                    box.upper[v] = new_high;
                    changed = true;
                    span(*row, box, low, high);
                }
            }
            for (const Mark& m : row->marks) {
                const size_t v = static_cast<size_t>(m.variable);
                if (box.lower[v] == box.upper[v] || m.value < box.lower[v] || m.value > box.upper[v]) continue;
                const Wide c = m.coefficient, rest_low = low - std::min<Wide>(c, 0), rest_high = high - std::max<Wide>(c, 0);
                const bool can =
                    (row->upper == NO_UPPER || rest_low + c <= row->upper) && (row->lower == NO_LOWER || rest_high + c >= row->lower);
                const bool can_not =
                    (row->upper == NO_UPPER || rest_low <= row->upper) && (row->lower == NO_LOWER || rest_high >= row->lower);
                if (!can && !can_not) return false;
                if (!can_not) box.lower[v] = box.upper[v] = m.value;
                else if (can) continue;
                else if (m.value == box.lower[v]) ++box.lower[v];
                else if (m.value == box.upper[v]) --box.upper[v];
                else continue;
                if (box.lower[v] > box.upper[v]) return false;
                changed = true;
                span(*row, box, low, high);
            }
        }
    }
    return true;
}

void Step::apply(const int64_t* x, int64_t* successor) const {
    for (const Update& u : updates) {
        Wide sum = u.constant;
        for (const Term& t : u.terms) sum += static_cast<Wide>(t.coefficient) * x[t.variable];
        for (const Mark& m : u.marks)
            if (x[m.variable] == m.value) sum += m.coefficient;
        successor[u.variable] = static_cast<int64_t>(sum);
    }
}

// ---- the search ----------------------------------------------------------------------------------------------------

class Search {
public:
    Search(const System& system, const Question& question, uint64_t seed, const Budget& budget)
        : system_(system), question_(question), budget_(budget), random_(seed * 0x9e3779b97f4a7c15u + 1) {}

    Found run() {
        Node root{question_.box, {}, {}};
        for (size_t k = 0; k < question_.without_boxes.size(); ++k)
            if (question_.without_boxes[k]->meets(root.box)) root.open.push_back(static_cast<uint32_t>(k));
        stack_.push_back(std::move(root));
        bool first = true;
        while (!stack_.empty()) {
            if (++found_.nodes > budget_.nodes || (found_.nodes % 16 == 0 && budget_.over())) {
                found_.answer = Answer::UNKNOWN;
                return found_;
            }
            Node node = std::move(stack_.back());
            stack_.pop_back();
            if (!reduce(node)) continue;
            if (node.box.count() <= system_.enumerated) {
                if (enumerate(node.box)) return found_;
                continue;
            }
            for (int k = 0; k < (first ? SAMPLES : 1); ++k)
                if (sample(node.box)) return found_;
            first = false;
            if (divide(node)) return found_;
        }
        if (!near_.empty()) {
            found_.answer = Answer::NEAR_TIE;
            found_.state = near_;
        }
        return found_;
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
        const Answer answer = question_.output < 0 ? Answer::YES : system_.chooses(x, question_.output);
        if (answer == Answer::NEAR_TIE && near_.empty()) near_.assign(x, x + system_.variables);
        if (answer != Answer::YES) return false;
        found_.answer = Answer::YES;
        found_.state.assign(x, x + system_.variables);
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
            point_[v] = box.lower[v] + static_cast<int64_t>(random_() % static_cast<uint64_t>(box.upper[v] - box.lower[v] + 1));
        return repair(box, point_) && counts(point_.data()) && accept(point_.data());
    }

    // Move the point inside the box until rows hold, one variable after the other.
    bool repair(const Box& box, std::vector<int64_t>& x) {
        for (int round = 0; round < 4; ++round) {
            bool fine = true;
            for (const Row* row : question_.rows) {
                Wide value = row->value(x.data());
                const size_t count = row->terms.size();
                if (count == 0) continue;
                const size_t first = static_cast<size_t>(random_() % count);
                for (size_t i = 0; i < count; ++i) {
                    const bool low = row->lower != NO_LOWER && value < row->lower, high = row->upper != NO_UPPER && value > row->upper;
                    if (!low && !high) break;
                    fine = false;
                    const Term& t = row->terms[(first + i) % count];
                    const size_t v = static_cast<size_t>(t.variable);
                    const Wide missing = low ? row->lower - value : row->upper - value;
                    const Wide a = t.coefficient;
                    Wide move = missing / a;
                    if (move == 0) move = (missing > 0) == (a > 0) ? 1 : -1;
                    const int64_t moved = static_cast<int64_t>(std::clamp<Wide>(x[v] + move, box.lower[v], box.upper[v]));
                    value += a * (static_cast<Wide>(moved) - x[v]);
                    x[v] = moved;
                }
            }
            if (fine) return true;
        }
        return false;
    }

    // Bound the policy over the node, then split what is left; true if the search is over.
    bool divide(Node& node) {
        Verdict verdict;
        const int32_t output = question_.output;
        if (output >= 0) {
            rivals_.assign(system_.scorer->outputs, Relation::INSIDE);
            if (system_.filtered)
                for (size_t m = 0; m < rivals_.size(); ++m) rivals_[m] = applicable(m, node.box);
            if (rivals_[static_cast<size_t>(output)] == Relation::OUTSIDE && system_.filtered) return false;
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
        if (verdict.beaten_by >= 0) cut_along(system_.guards[static_cast<size_t>(verdict.beaten_by)], node.box, variable, cut);
        if (variable < 0) cut_off(node, variable, cut);
        if (variable < 0 && verdict.split_variable >= 0) {
            variable = verdict.split_variable;
            cut = verdict.split_value;
        }
        if (variable < 0)
            for (const Cell* cell : question_.without)
                if (cut_along_cell(*cell, node.box, variable, cut)) break;
        const size_t v = static_cast<size_t>(variable);
        if (variable < 0 || cut < node.box.lower[v] || cut >= node.box.upper[v]) widest(node.box, variable, cut);
        split(node, static_cast<size_t>(variable), cut, verdict);
        return false;
    }

    void split(Node& node, size_t v, int64_t cut, const Verdict& verdict) {
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
            const double width = static_cast<double>(box.upper[v] - box.lower[v]) + 1;
            if (cell.box.lower[v] > box.lower[v] && cell.box.lower[v] <= box.upper[v]) {
                const double part = static_cast<double>(cell.box.lower[v] - box.lower[v]) / width;
                if (part > best) {
                    best = part;
                    variable = static_cast<int32_t>(v);
                    cut = cell.box.lower[v] - 1;
                }
            }
            if (cell.box.upper[v] < box.upper[v] && cell.box.upper[v] >= box.lower[v]) {
                const double part = static_cast<double>(box.upper[v] - cell.box.upper[v]) / width;
                if (part > best) {
                    best = part;
                    variable = static_cast<int32_t>(v);
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
                const double share =
                    (static_cast<double>(high - low) + 1) / (static_cast<double>(node.box.upper[v] - node.box.lower[v]) + 1);
                part *= share;
                if (share < narrowest) {
                    narrowest = share;
                    at = static_cast<int32_t>(v);
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
                variable = static_cast<int32_t>(v);
                cut = box.lower[v] + best / 2;
            }
    }

    const System& system_;
    const Question& question_;
    const Budget& budget_;
    std::mt19937_64 random_;
    std::unique_ptr<Bounds> bounds_;
    std::vector<Node> stack_;
    std::vector<Relation> rivals_;
    std::vector<int64_t> point_, near_;
    Found found_;
};

// ---- the system ----------------------------------------------------------------------------------------------------

System::System(size_t variables_, Box domain_, const Scorer* scorer_, std::vector<int32_t> inputs_, bool filtered_,
               std::vector<std::vector<Cell>> guards_)
    : variables(variables_),
      domain(std::move(domain_)),
      scorer(scorer_),
      inputs(std::move(inputs_)),
      filtered(filtered_),
      guards(std::move(guards_)) {
    network = dynamic_cast<const Enclosed*>(scorer);
    trees = dynamic_cast<const Trees*>(scorer);
    if (const auto* chain = dynamic_cast<const Mlp*>(scorer)) plain = make_plain(*chain, inputs, variables);
    if (const auto* made = dynamic_cast<const UnitGraph*>(scorer)) graph = make_plain(*made, inputs, variables);
    if (trees) ensemble = make_plain(*trees, inputs);
}

std::unique_ptr<Bounds> System::bounds(const Box& root) const {
    if (graph) return graph_bounds(*graph);
    return plain ? network_bounds(*plain, root) : tree_bounds(*ensemble, variables);
}

Answer System::chooses(const int64_t* x, int32_t output) const {
    thread_local std::vector<float> row, scores;
    thread_local std::vector<double> error;
    thread_local std::vector<uint8_t> mask, possible;
    row.resize(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) row[k] = static_cast<float>(static_cast<double>(x[inputs[k]]));
    const uint8_t* given = nullptr;
    if (filtered) {
        mask.assign(scorer->outputs, 0);
        for (size_t m = 0; m < mask.size(); ++m)
            for (const Cell& cell : guards[m])
                if (cell.holds(x)) {
                    mask[m] = 1;
                    break;
                }
        given = mask.data();
        if (!mask[static_cast<size_t>(output)]) return Answer::NO;
    }
    int32_t choice;
    if (!network) {
        scorer->choose(row.data(), 1, given, &choice);
        return choice == output ? Answer::YES : Answer::NO;
    }
    uint8_t sure;
    network->choose_surely(row.data(), 1, given, &choice, &sure);
    if (choice == output) return Answer::YES;
    if (sure) return Answer::NO;
    scores.resize(scorer->outputs);
    error.resize(scorer->outputs);
    possible.resize(scorer->outputs);
    network->rounding_bounds(row.data(), 1, scores.data(), error.data());
    possible_choices(scores.data(), error.data(), scorer->outputs, given, possible.data());
    return possible[static_cast<size_t>(output)] ? Answer::NEAR_TIE : Answer::NO;
}

Found System::find(const Question& question, uint64_t seed, const Budget& budget) const {
    if (question.box.empty()) return {};
    return Search(*this, question, seed, budget).run();
}

// The states of the step's cell that it takes into the target, as a question; false if there is surely none.
bool System::preimage(const Step& step, const Cell& target, Question& question, std::vector<Row>& made) const {
    question.box = step.cell.box;
    std::vector<uint8_t> changed(variables, 0);
    for (const Update& u : step.updates) changed[static_cast<size_t>(u.variable)] = 1;
    for (size_t v = 0; v < variables; ++v) {
        if (changed[v]) continue;
        question.box.lower[v] = std::max(question.box.lower[v], target.box.lower[v]);
        question.box.upper[v] = std::min(question.box.upper[v], target.box.upper[v]);
        if (question.box.lower[v] > question.box.upper[v]) return false;
    }
    made.clear();
    auto add = [&](Row row) {
        Wide low, high;
        span(row, question.box, low, high);
        if ((row.lower != NO_LOWER && high < row.lower) || (row.upper != NO_UPPER && low > row.upper)) return false;
        if (!((row.lower == NO_LOWER || low >= row.lower) && (row.upper == NO_UPPER || high <= row.upper))) made.push_back(std::move(row));
        return true;
    };
    for (const Update& u : step.updates) {
        const size_t v = static_cast<size_t>(u.variable);
        if (!add(Row{u.terms, u.marks, target.box.lower[v] - u.constant, target.box.upper[v] - u.constant})) return false;
    }
    for (const Row& row : target.rows) {  // substitute the updates into the target's rows
        if (!row.marks.empty()) throw std::invalid_argument("rows of a target cannot have marks");
        std::vector<int64_t> c(variables, 0);
        Row moved;
        moved.lower = row.lower;
        moved.upper = row.upper;
        for (const Term& t : row.terms) {
            const Update* update = nullptr;
            for (const Update& u : step.updates)
                if (u.variable == t.variable) update = &u;
            if (!update) {
                c[static_cast<size_t>(t.variable)] += t.coefficient;
                continue;
            }
            for (const Term& inner : update->terms) c[static_cast<size_t>(inner.variable)] += t.coefficient * inner.coefficient;
            for (Mark mark : update->marks) {
                mark.coefficient *= t.coefficient;
                moved.marks.push_back(mark);
            }
            if (moved.lower != NO_LOWER) moved.lower -= t.coefficient * update->constant;
            if (moved.upper != NO_UPPER) moved.upper -= t.coefficient * update->constant;
        }
        for (size_t v = 0; v < variables; ++v)
            if (c[v]) moved.terms.push_back({static_cast<int32_t>(v), c[v]});
        if (!add(std::move(moved))) return false;
    }
    for (const Row& row : step.cell.rows) question.rows.push_back(&row);
    for (const Row& row : made) question.rows.push_back(&row);
    for (const Row& row : rows) question.rows.push_back(&row);
    if (!contract(question.box, question.rows)) return false;
    for (const Cell& hole : step.cell.holes) question.without.push_back(&hole);
    for (const Cell& cell : ended) question.without.push_back(&cell);
    question.output = step.output;
    return true;
}

Box System::widen(const int64_t* x, int32_t number, const Cell& target, uint64_t seed) const {
    const Step& step = steps[static_cast<size_t>(number)];
    Box box{{x, x + variables}, {x, x + variables}};
    std::vector<const Row*> known;
    for (const Row& row : rows) known.push_back(&row);
    std::vector<Relation> rivals;
    const std::unique_ptr<Bounds> judge = scorer ? bounds(domain) : nullptr;
    auto good = [&](const Box& tried) {
        if (relation(step.cell, tried) != Relation::INSIDE) return false;
        for (const Cell& cell : ended)
            if (relation(cell, tried) != Relation::OUTSIDE) return false;
        for (const Update& u : step.updates) {
            Wide low, high;
            span(Row{u.terms, u.marks, NO_LOWER, NO_UPPER}, tried, low, high);
            const size_t v = static_cast<size_t>(u.variable);
            if (low + u.constant < target.box.lower[v] || high + u.constant > target.box.upper[v]) return false;
        }
        std::vector<uint8_t> changed(variables, 0);
        for (const Update& u : step.updates) changed[static_cast<size_t>(u.variable)] = 1;
        for (size_t v = 0; v < variables; ++v)
            if (!changed[v] && (tried.lower[v] < target.box.lower[v] || tried.upper[v] > target.box.upper[v])) return false;
        if (step.output < 0) return true;
        // The output beats every rival that may be applicable: no rival can be chosen anywhere in the box.
        rivals.assign(scorer->outputs, Relation::INSIDE);
        for (size_t m = 0; filtered && m < rivals.size(); ++m) {
            rivals[m] = Relation::OUTSIDE;
            for (const Cell& cell : guards[m])
                if (relation(cell, tried) != Relation::OUTSIDE) {
                    rivals[m] = Relation::MIXED;
                    break;
                }
        }
        return judge->wins(tried, known, step.output, rivals);
    };
    if (!target.rows.empty()) return box;
    std::mt19937_64 random(seed);
    std::vector<std::pair<size_t, bool>> sides;
    for (size_t v = 0; v < variables; ++v) {
        sides.push_back({v, false});
        sides.push_back({v, true});
    }
    std::shuffle(sides.begin(), sides.end(), random);
    for (const auto& [v, up] : sides) {
        int64_t jump = up ? domain.upper[v] - box.upper[v] : box.lower[v] - domain.lower[v];
        while (jump > 0) {
            Box tried = box;
            if (up) tried.upper[v] += jump;
            else tried.lower[v] -= jump;
            if (good(tried)) {
                box = tried;
                break;
            }
            jump /= 2;
        }
    }
    return box;
}

}  // namespace polvet::boxes
