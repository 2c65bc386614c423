// The policy as questions see it: what it chooses in a state, and who bounds it over a box.
#include "boxes/boxes.h"

namespace polvet {

BoxSystem::BoxSystem(size_t variables_, Box domain_, const Scorer* scorer_, std::vector<int32_t> inputs_, bool filtered_,
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

std::unique_ptr<PolicyBounds> BoxSystem::bounds(const Box& root) const {
    if (graph) return graph_bounds(*graph);
    return plain ? network_bounds(*plain, root) : tree_bounds(*ensemble, variables);
}

BoxAnswer BoxSystem::chooses(const int64_t* x, int32_t output) const {
    thread_local std::vector<float> row, scores;
    thread_local std::vector<double> error;
    thread_local std::vector<uint8_t> mask, possible;
    row.resize(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) row[k] = float(double(x[inputs[k]]));
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
        if (!mask[size_t(output)]) return BoxAnswer::NO;
    }
    int32_t choice;
    if (!network) {
        scorer->choose(row.data(), 1, given, &choice);
        return choice == output ? BoxAnswer::YES : BoxAnswer::NO;
    }
    uint8_t sure;
    network->choose_surely(row.data(), 1, given, &choice, &sure);
    if (choice == output) return BoxAnswer::YES;
    if (sure) return BoxAnswer::NO;
    scores.resize(scorer->outputs);
    error.resize(scorer->outputs);
    possible.resize(scorer->outputs);
    network->rounding_bounds(row.data(), 1, scores.data(), error.data());
    possible_choices(scores.data(), error.data(), scorer->outputs, given, possible.data());
    return possible[size_t(output)] ? BoxAnswer::NEAR_TIE : BoxAnswer::NO;
}

}  // namespace polvet
