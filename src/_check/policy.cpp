#include "policy.h"

#include <algorithm>
#include <cmath>

#include "network.h"

namespace polvet::judging {

namespace {

using Parts = std::vector<Item>;
using Scores = std::function<void(const Cell*, std::vector<double>&)>;

const Parts& only(const Parts& parts, std::string_view key) {
    const Item* found = nullptr;
    for (const Item& part : parts)
        if (part.is(key)) {
            if (found) throw Unhandled("a part of the policy stands twice");
            found = &part;
        }
    if (!found) throw Unhandled("the policy lacks a part " + std::string(key));
    return found->parts;
}

struct Node {
    int32_t input = -1;  // a leaf has none
    double threshold = 0;
    uint32_t left = 0, right = 0;  // of a leaf: where its values begin
    int32_t zero = -1;             // where an input near 0 goes, or -1
};

struct Tree {
    int32_t output;  // -1: all
    uint32_t root;
};

struct Forest {
    std::vector<Node> nodes;
    std::vector<double> leaves, base;
    std::vector<Tree> trees;
    bool narrow = false, strict = false;
    double divisor = 0;

    uint32_t add(const Item& item, size_t width, size_t inputs) {
        const bool is_leaf = !item.is_list || (item.parts.size() == width && !item.parts.back().is_list);
        if (is_leaf) {
            Node leaf;
            leaf.left = uint32_t(leaves.size());
            if (!item.is_list) leaves.push_back(to_double(item.text));
            else
                for (const Item& word : item.parts) leaves.push_back(to_double(word.word()));
            if (leaves.size() - leaf.left != width) throw Unhandled("a leaf of another width");
            nodes.push_back(leaf);
            return uint32_t(nodes.size() - 1);
        }
        if (item.parts.size() != 4 && item.parts.size() != 5) throw Unhandled("a part of a tree that is not a node");
        Node node;
        node.input = int32_t(to_integer(item.parts[0].word()));
        if (node.input < 0 || size_t(node.input) >= inputs) throw Unhandled("a tree reads an input that is not there");
        node.threshold = to_double(item.parts[1].word());
        node.left = add(item.parts[2], width, inputs);
        node.right = add(item.parts[3], width, inputs);
        if (item.parts.size() == 5) node.zero = int32_t(item.parts[4].word() == "left" ? node.left : node.right);
        nodes.push_back(node);
        return uint32_t(nodes.size() - 1);
    }

    void scores(const std::vector<float>& row, std::vector<double>& out) const {
        out = base;
        for (const Tree& tree : trees) {
            const Node* node = &nodes[tree.root];
            while (node->input >= 0) {
                const float x = row[size_t(node->input)];
                const bool is_left = strict ? double(x) < node->threshold : double(x) <= node->threshold;
                node = &nodes[node->zero >= 0 && std::fabs(x) <= 1e-35f ? uint32_t(node->zero) : is_left ? node->left : node->right];
            }
            const size_t first = tree.output < 0 ? 0 : size_t(tree.output), end = tree.output < 0 ? out.size() : first + 1;
            for (size_t k = first; k < end; ++k) {
                const double sum = out[k] + leaves[node->left + (k - first)];
                out[k] = narrow ? double(float(sum)) : sum;
            }
        }
        if (divisor != 0)
            for (double& score : out) score /= divisor;
    }
};

}  // namespace

std::function<void(const Cell*, std::vector<float>&)> row_of(const World& world, const Parts& parts) {
    std::vector<Expr> inputs;
    const Parts& words = only(parts, "inputs");
    for (size_t k = 1; k < words.size(); ++k) inputs.push_back(world.compile(words[k]));
    return [inputs](const Cell* state, std::vector<float>& row) {
        row.clear();
        for (const Expr& input : inputs) row.push_back(float(real_of(evaluate(*input, state))));
    };
}

Chooser::Chooser(const World& world) : filtered_(world.says("applicable") == "filtered"), sampled_(world.says("choose") == "sampled") {
    if (!world.policy()) throw Unhandled("the text has no policy");
    if ((!filtered_ && world.says("applicable") != "raw") || (!sampled_ && world.says("choose") != "arg-max"))
        throw Unhandled("a meaning that is not known");
    const Parts& parts = *world.policy();
    if (sampled_) throw Unhandled("a sampled policy");
    const std::string& kind = parts[0].word();
    const Parts& words = only(parts, "labels");
    std::vector<std::string> names;
    for (size_t k = 1; k < words.size(); ++k) {
        names.push_back(words[k].word() == "-" ? "-" : words[k].name());
        labels_.push_back(words[k].word() == "-" ? -2 : world.label(names.back()));
    }
    const size_t width = labels_.size();
    const auto one_for = [&](const Item& word) {
        std::vector<double> scores(width, 0);
        const auto found = std::find(names.begin(), names.end(), word.name());
        if (found == names.end()) throw Unhandled("the policy names a label that it does not have");
        scores[size_t(found - names.begin())] = 1;
        return scores;
    };
    const auto said_of = [&](const Item& item) {
        if (!item.is("scores")) return one_for(item);
        std::vector<double> said;
        for (size_t k = 1; k < item.parts.size(); ++k) said.push_back(to_double(item.parts[k].word()));
        if (said.size() != width) throw Unhandled("a row that lacks scores");
        return said;
    };
    Scores scores;
    if (kind == "network") {
        scorer_ = network_scorer(world, parts, width);
        return;
    }
    if (kind == "forest") {
        auto forest = std::make_shared<Forest>();
        const Parts &arithmetic = only(parts, "arithmetic"), &base = only(parts, "base");
        if (arithmetic.size() != 3 || base.size() != width + 1) throw Unhandled("the forest lacks its arithmetic or base scores");
        forest->narrow = arithmetic[1].word() == "float32";
        forest->strict = arithmetic[2].word() == "<";
        if ((!forest->narrow && arithmetic[1].text != "float64") || (!forest->strict && arithmetic[2].text != "<="))
            throw Unhandled("an arithmetic that is not known");
        const size_t inputs = only(parts, "inputs").size() - 1;
        for (size_t k = 1; k < base.size(); ++k) forest->base.push_back(to_double(base[k].word()));
        for (const Item& part : parts) {
            if (part.is("divide")) forest->divisor = to_double(part.parts.at(1).word());
            if (!part.is("tree")) continue;
            if (part.parts.size() != 3) throw Unhandled("a tree without a root");
            const int32_t output = part.parts[1].word() == "*" ? -1 : int32_t(to_integer(part.parts[1].text));
            if (output < -1 || output >= int32_t(width)) throw Unhandled("a tree of no output");
            const uint32_t root = forest->add(part.parts[2], output < 0 ? width : 1, inputs);
            forest->trees.push_back({output, root});
        }
        scores = [forest, row = row_of(world, parts), values = std::make_shared<std::vector<float>>()](const Cell* state,
                                                                                                       std::vector<double>& out) {
            row(state, *values);
            forest->scores(*values, out);
        };
    } else if (kind == "table") {
        auto rows = std::make_shared<std::map<std::vector<float>, std::vector<double>>>();
        std::vector<double> otherwise;
        for (const Item& part : parts) {
            if (part.is("default")) otherwise = said_of(part.parts.at(1));
            if (!part.is("row")) continue;
            std::vector<float> key;
            for (const Item& word : part.parts.at(1).parts) key.push_back(float(to_double(word.word())));
            if (!rows->emplace(std::move(key), said_of(part.parts.at(2))).second) throw Unhandled("a row stands twice");
        }
        scores = [rows, otherwise, row = row_of(world, parts)](const Cell* state, std::vector<double>& out) {
            std::vector<float> key;
            row(state, key);
            const auto found = rows->find(key);
            if (found == rows->end() && otherwise.empty()) throw Doubt{};
            out = found == rows->end() ? otherwise : found->second;
        };
    } else if (kind == "rules") {
        std::vector<std::pair<Expr, std::vector<double>>> rules;
        for (const Item& part : parts)
            if (part.is("rule")) rules.emplace_back(world.compile(part.parts.at(1)), one_for(part.parts.at(2)));
        scores = [rules, &world](const Cell* state, std::vector<double>& out) {
            Cells near(state, state + world.size());
            for (uint32_t k = 0; k < world.size(); ++k) {
                if (world.variables()[k].is_real) throw Doubt{};
                near[k].i = int64_t(float(real_of({false, state[k]})));
            }
            for (const auto& [condition, said] : rules)
                if (is_true(*condition, near.data())) {
                    out = said;
                    return;
                }
            throw Doubt{};
        };
    } else {
        throw Unhandled("a policy of kind " + kind);
    }
    scorer_ = [scores](const Cell* state, const std::vector<uint32_t>& outputs, std::vector<uint32_t>& best) {
        std::vector<double> values;
        scores(state, values);
        uint32_t first = outputs[0];
        for (const uint32_t k : outputs) {
            if (std::isnan(values[k])) throw Doubt{};
            if (values[k] > values[first]) first = k;
        }
        best = {first};
    };
}

void Chooser::choose(const Cell* state, const std::vector<int32_t>& applicable, std::vector<int32_t>& chosen, bool& may_stick) const {
    const auto is_applicable = [&](int32_t label) { return std::find(applicable.begin(), applicable.end(), label) != applicable.end(); };
    std::vector<uint32_t> outputs, best;
    for (uint32_t k = 0; k < labels_.size(); ++k)
        if (!filtered_ || is_applicable(labels_[k])) outputs.push_back(k);
    if (sampled_ || outputs.empty()) best = outputs;
    else scorer_(state, outputs, best);
    chosen.clear();
    may_stick = best.empty();
    for (const uint32_t k : best) {
        if (!is_applicable(labels_[k])) may_stick = true;
        else if (std::find(chosen.begin(), chosen.end(), labels_[k]) == chosen.end()) chosen.push_back(labels_[k]);
    }
}

}  // namespace polvet::judging
