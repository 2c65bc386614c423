// Questions about steps: the states that a step takes into a target, and boxes of states that it surely takes there.
#include <algorithm>
#include <random>
#include <stdexcept>

#include "boxes/boxes.h"

namespace polvet {

void Step::apply(const int64_t* x, int64_t* successor) const {
    for (const Update& u : updates) {
        Int128 sum = u.constant;
        for (const Summand& t : u.terms) sum += Int128(t.coefficient) * x[t.variable];
        for (const Mark& m : u.marks)
            if (x[m.variable] == m.value) sum += m.coefficient;
        successor[u.variable] = int64_t(sum);
    }
}

// The states of the step's cell that it takes into the target, as a question; false if there is surely none.
bool BoxSystem::preimage(const Step& step, const Cell& target, BoxQuestion& question, std::vector<Row>& made) const {
    question.box = step.cell.box;
    std::vector<uint8_t> changed(variables, 0);
    for (const Update& u : step.updates) changed[size_t(u.variable)] = 1;
    for (size_t v = 0; v < variables; ++v) {
        if (changed[v]) continue;
        question.box.lower[v] = std::max(question.box.lower[v], target.box.lower[v]);
        question.box.upper[v] = std::min(question.box.upper[v], target.box.upper[v]);
        if (question.box.lower[v] > question.box.upper[v]) return false;
    }
    made.clear();
    auto add = [&](Row row) {
        Int128 low, high;
        span(row, question.box, low, high);
        if ((row.lower != NO_LOWER && high < row.lower) || (row.upper != NO_UPPER && low > row.upper)) return false;
        if (!((row.lower == NO_LOWER || low >= row.lower) && (row.upper == NO_UPPER || high <= row.upper))) made.push_back(std::move(row));
        return true;
    };
    for (const Update& u : step.updates) {
        const size_t v = size_t(u.variable);
        if (!add(Row{u.terms, u.marks, target.box.lower[v] - u.constant, target.box.upper[v] - u.constant})) return false;
    }
    for (const Row& row : target.rows) {  // substitute the updates into the target's rows
        if (!row.marks.empty()) throw std::invalid_argument("rows of a target cannot have marks");
        std::vector<int64_t> c(variables, 0);
        Row moved;
        moved.lower = row.lower;
        moved.upper = row.upper;
        for (const Summand& t : row.terms) {
            const Update* update = nullptr;
            for (const Update& u : step.updates)
                if (u.variable == t.variable) update = &u;
            if (!update) {
                c[size_t(t.variable)] += t.coefficient;
                continue;
            }
            for (const Summand& inner : update->terms) c[size_t(inner.variable)] += t.coefficient * inner.coefficient;
            for (Mark mark : update->marks) {
                mark.coefficient *= t.coefficient;
                moved.marks.push_back(mark);
            }
            if (moved.lower != NO_LOWER) moved.lower -= t.coefficient * update->constant;
            if (moved.upper != NO_UPPER) moved.upper -= t.coefficient * update->constant;
        }
        for (size_t v = 0; v < variables; ++v)
            if (c[v]) moved.terms.push_back({int32_t(v), c[v]});
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

Box BoxSystem::widen(const int64_t* x, int32_t number, const Cell& target, uint64_t seed) const {
    const Step& step = steps[size_t(number)];
    Box box{{x, x + variables}, {x, x + variables}};
    std::vector<const Row*> known;
    for (const Row& row : rows) known.push_back(&row);
    std::vector<Relation> rivals;
    const std::unique_ptr<PolicyBounds> judge = scorer ? bounds(domain) : nullptr;
    auto good = [&](const Box& tried) {
        if (relation(step.cell, tried) != Relation::INSIDE) return false;
        for (const Cell& cell : ended)
            if (relation(cell, tried) != Relation::OUTSIDE) return false;
        for (const Update& u : step.updates) {
            Int128 low, high;
            span(Row{u.terms, u.marks, NO_LOWER, NO_UPPER}, tried, low, high);
            const size_t v = size_t(u.variable);
            if (low + u.constant < target.box.lower[v] || high + u.constant > target.box.upper[v]) return false;
        }
        std::vector<uint8_t> changed(variables, 0);
        for (const Update& u : step.updates) changed[size_t(u.variable)] = 1;
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

BatchQuestion BoxSystem::step_question(int32_t number, const Cell& target, const Box& within, const std::vector<const Box*>& without,
                                       uint64_t seed, size_t group) const {
    auto state = [this, number, &target, &within, &without](BoxQuestion& question, std::vector<Row>& made) {
        if (!preimage(steps[size_t(number)], target, question, made)) return false;
        for (size_t v = 0; v < variables; ++v) {
            question.box.lower[v] = std::max(question.box.lower[v], within.lower[v]);
            question.box.upper[v] = std::min(question.box.upper[v], within.upper[v]);
        }
        if (question.box.empty()) return false;
        question.without_boxes = without;
        return true;
    };
    return {std::move(state), seed + uint64_t(number), group};
}

}  // namespace polvet
