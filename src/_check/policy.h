// What a policy may choose in a state: exactly for trees, tables, rules and answers; for networks whatever some execution may choose,
// by enclosures in doubles. docs/flat.md is the definition.
#pragma once
#include <functional>

#include "world.h"

namespace polvet::judging {

class Chooser {
public:
    explicit Chooser(const World& world);

    // The labels of `applicable` that may be chosen, and whether the policy may be stuck.
    void choose(const Cell* state, const std::vector<int32_t>& applicable, std::vector<int32_t>& chosen, bool& may_stick) const;

private:
    // Of the outputs that may be chosen, those that may be the best.
    using Scorer = std::function<void(const Cell*, const std::vector<uint32_t>&, std::vector<uint32_t>&)>;

    bool filtered_, sampled_;
    std::vector<int32_t> labels_;  // per output; -2: no operator has it
    Scorer scorer_;
};

}  // namespace polvet::judging
