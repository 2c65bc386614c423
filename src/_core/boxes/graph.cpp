// Backward linear bounds of margins over a box and rows, for graphs of units; see boxes.h and policies/unit_graph.h.
//
// Every bound speaks of the values of *any* evaluation: an affine node gives exactly W x + b of its own inputs, up to what rounding
// may add (`local_`); a unit gives f(x) of its own input, up to its enclosure. So errors are met where they arise, and reach the
// scores with the coefficients that the backward pass has there.
#include <algorithm>
#include <cmath>
#include <limits>

#include "boxes/boxes.h"
#include "boxes/margins.h"
#include "boxes/relax.h"

namespace polvet {

struct PlainGraph {
    const UnitGraph* graph;
    std::vector<int32_t> inputs;  // the variable of each input
    size_t variables;
    std::vector<std::vector<double>> weights;  // per affine node [outputs][terms]
    std::vector<uint8_t> hidden;               // per node: an affine one whose values a unit or a product reads
    std::vector<std::vector<double>> kinks;    // per place that only straight units read: where they bend
    std::vector<uint8_t> curved;               // per place: some other unit or product reads it
};

std::shared_ptr<const PlainGraph> make_plain(const UnitGraph& graph, const std::vector<int32_t>& inputs, size_t variables) {
    auto plain = std::make_shared<PlainGraph>();
    plain->graph = &graph;
    plain->inputs = inputs;
    plain->variables = variables;
    plain->weights.resize(graph.nodes.size());
    plain->hidden.assign(graph.nodes.size(), 0);
    plain->kinks.resize(graph.tape);
    plain->curved.assign(graph.tape, 0);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const UnitGraph::Node& node = graph.nodes[i];
        if (const auto* affine = std::get_if<UnitGraph::Affine>(&node.what)) {
            std::vector<double>& made = plain->weights[i];
            if (!affine->dense) {
                made.assign(affine->weights.begin(), affine->weights.end());
                continue;
            }
            const DenseLayer& layer = affine->layer[0];
            for (size_t j = 0; j < layer.outputs; ++j)
                for (size_t k = 0; k < layer.inputs; ++k) made.push_back(layer.weights[k * layer.padded + j]);
            continue;
        }
        for (const size_t parent : node.parents)
            if (parent && std::holds_alternative<UnitGraph::Affine>(graph.nodes[parent - 1].what)) plain->hidden[parent - 1] = 1;
        if (const auto* unit = std::get_if<UnitGraph::Unit>(&node.what)) {
            for (size_t j = 0; j < node.size; ++j) {
                const uint32_t place = unit->columns[j];
                if (!units::is_straight(unit->kind)) {
                    plain->curved[place] = 1;
                    continue;
                }
                const units::Places bends = units::turns(unit->kind, unit->a[j], unit->b[j]);
                plain->kinks[place].insert(plain->kinks[place].end(), bends.at, bends.at + bends.count);
            }
        } else if (const auto* product = std::get_if<UnitGraph::Product>(&node.what)) {
            for (const uint32_t place : product->left) plain->curved[place] = 1;
            for (const uint32_t place : product->right) plain->curved[place] = 1;
        }
    }
    return plain;
}

namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();

class GraphBounds final : public MarginBounds {
public:
    explicit GraphBounds(const PlainGraph& plain) : MarginBounds(plain.variables), plain_(plain), graph_(*plain.graph) {
        for (auto* side : {&low_, &high_, &local_, &form_}) side->assign(graph_.tape, 0.0);
        above_.assign(graph_.tape, {0, 0});
        below_.assign(graph_.tape, {0, 0});
        touched_.assign(graph_.nodes.size() + 1, 0);
    }

private:
    using Affine = UnitGraph::Affine;
    using Unit = UnitGraph::Unit;
    using Product = UnitGraph::Product;

    bool recall(const std::vector<double>& known) override {
        if (known.empty()) return false;
        std::copy_n(known.begin(), graph_.tape, low_.begin());
        std::copy_n(known.begin() + ptrdiff_t(graph_.tape), graph_.tape, high_.begin());
        return true;
    }

    void remember(std::vector<double>& known) const override {
        known.assign(low_.begin(), low_.end());
        known.insert(known.end(), high_.begin(), high_.end());
    }

    void bound_hidden(bool known) override {
        for (size_t k = 0; k < plain_.inputs.size(); ++k) {
            const size_t v = size_t(plain_.inputs[k]);
            const double reach = std::max(std::fabs(lower_[v]), std::fabs(upper_[v]));
            local_[k] = reach > 0x1p24 ? reach * 0x1p-23 : 0;  // the input is the nearest float32
            low_[k] = lower_[v] - local_[k];
            high_[k] = upper_[v] + local_[k];
        }
        for (size_t i = 0; i < graph_.nodes.size(); ++i) {
            const UnitGraph::Node& node = graph_.nodes[i];
            if (const auto* affine = std::get_if<Affine>(&node.what)) bound_affine(i, node, *affine, known);
            else if (const auto* unit = std::get_if<Unit>(&node.what)) bound_unit(node, *unit, known);
            else bound_product(node, std::get<Product>(node.what), known);
        }
    }

    // SOUND: what holds already may be kept, so that a bound can only get narrower.
    void keep(size_t place, double low, double high, bool known) {
        low_[place] = known ? std::max(low_[place], low) : low;
        high_[place] = known ? std::min(high_[place], high) : high;
    }

    double reach(size_t place) const { return std::max(std::fabs(low_[place]), std::fabs(high_[place])); }

    void bound_affine(size_t i, const UnitGraph::Node& node, const Affine& affine, bool known) {
        const double summands = double(affine.terms + affine.roundings) + 8;
        const double gamma = summands * 0x1p-24 / (1 - summands * 0x1p-24);
        for (size_t j = 0; j < node.size; ++j) {
            const double* w = plain_.weights[i].data() + j * affine.terms;
            const uint32_t* columns = affine.columns.data() + (affine.dense ? 0 : j * affine.terms);
            double size = affine.sizes[j], low = affine.bias[j], high = low, read = 0;
            for (size_t k = 0; k < affine.terms; ++k) {
                const size_t place = columns[k];
                size += std::fabs(w[k]) * reach(place);
                read += reach(place);  // weights below 2^-126 may be taken for 0
                low += w[k] > 0 ? w[k] * low_[place] : w[k] < 0 ? w[k] * high_[place] : 0;
                high += w[k] > 0 ? w[k] * high_[place] : w[k] < 0 ? w[k] * low_[place] : 0;
            }
            // SOUND: Higham's gamma over the sum of absolute values; 1.02 of it also covers what the sums in double of this
            // bound and of the backward pass can lose, which is below 2^-30 of the same sum.
            double local = (gamma * size + (64 * summands + 4 * affine.norm + read) * 0x1p-126) * 1.02;
            if (!(size < 0x1p125) || summands > 0x1p18 || graph_.tape > 0x1p18) local = INFINITE;
            local_[node.begin + j] = local;
            keep(node.begin + j, local < INFINITE ? low - local : -INFINITE, local < INFINITE ? high + local : INFINITE, known);
        }
        if (!plain_.hidden[i] || (rows_.empty() && node.parents.size() == 1 && node.parents[0] == 0)) return;
        for (size_t j = 0; j < node.size; ++j) {
            const size_t place = node.begin + j;
            if (!plain_.curved[place]) {  // between two bends a straight unit is a line already
                bool bends = false;
                for (const double at : plain_.kinks[place]) bends = bends || (at > low_[place] && at < high_[place]);
                if (!bends) continue;
            }
            for (const double sign : {1.0, -1.0}) {
                form_[place] = sign;
                touched_[i + 1] = 1;
                descend(i + 1);
                double shift = 0;
                const double bound = maximise(coefficients_.data(), shift, reduced_.data()) + constant_;
                if (sign > 0) high_[place] = std::min(high_[place], bound);
                else low_[place] = std::max(low_[place], -bound);
            }
        }
    }

    void bound_unit(const UnitGraph::Node& node, const Unit& unit, bool known) {
        for (size_t j = 0; j < node.size; ++j) {
            const size_t from = unit.columns[j], place = node.begin + j;
            const double a = unit.a[j], b = unit.b[j], size = reach(from);
            const Relaxer relaxer(unit.kind, low_[from], high_[from], a, b);
            const double most = relaxer.greatest(1), least = -relaxer.greatest(-1);
            const double result = std::max(std::fabs(most), std::fabs(least));
            const double own =
                size < 0x1p125 && result < 0x1p125 ? units::enclosure(unit.kind, size, result, a, b) * (1 + 0x1p-20) : INFINITE;
            keep(place, least - own, most + own, known);
            above_[place] = relaxer.line(1);
            below_[place] = relaxer.line(-1);
            // SOUND: 2^-40 more for the products and sums of the backward pass that this unit has a part in.
            above_[place].constant += own + (std::fabs(above_[place].slope) * size + result) * 0x1p-40;
            below_[place].constant -= own + (std::fabs(below_[place].slope) * size + result) * 0x1p-40;
        }
    }

    void bound_product(const UnitGraph::Node& node, const Product& product, bool known) {
        for (size_t j = 0; j < node.size; ++j) {
            const size_t x = product.left[j], y = product.right[j], place = node.begin + j;
            const double size = reach(x) * reach(y);
            const double own = size < 0x1p125 ? size * 0x1p-21 + 0x1p-120 : INFINITE;
            local_[place] = own;
            if (own == INFINITE) {
                keep(place, -INFINITE, INFINITE, known);
                continue;
            }
            const double corners[] = {low_[x] * low_[y], low_[x] * high_[y], high_[x] * low_[y], high_[x] * high_[y]};
            keep(place, *std::min_element(corners, corners + 4) - own, *std::max_element(corners, corners + 4) + own, known);
        }
    }

    // Carry the form over the values of the nodes before `end` (and of inputs) down to the variables, from above.
    void descend(size_t end) {
        constant_ = 0;
        double size = 0;
        auto shift = [&](double by) {
            constant_ += by;
            size += std::fabs(by);
        };
        for (size_t i = end; i-- > 0;) {
            if (!touched_[i + 1]) continue;
            touched_[i + 1] = 0;
            const UnitGraph::Node& node = graph_.nodes[i];
            for (const size_t parent : node.parents) touched_[parent] = 1;
            for (size_t j = 0; j < node.size; ++j) {
                const double factor = form_[node.begin + j];
                if (factor == 0) continue;
                form_[node.begin + j] = 0;
                if (const auto* affine = std::get_if<Affine>(&node.what)) {
                    shift(factor * affine->bias[j]);
                    shift(std::fabs(factor) * local_[node.begin + j]);
                    const double* w = plain_.weights[i].data() + j * affine->terms;
                    const uint32_t* columns = affine->columns.data() + (affine->dense ? 0 : j * affine->terms);
                    if (affine->dense && affine->adjacent) add_multiple(form_.data() + columns[0], w, factor, affine->terms);
                    else
                        for (size_t k = 0; k < affine->terms; ++k) form_[columns[k]] += factor * w[k];
                } else if (const auto* unit = std::get_if<Unit>(&node.what)) {
                    const Line& line = factor > 0 ? above_[node.begin + j] : below_[node.begin + j];
                    form_[unit->columns[j]] += factor * line.slope;
                    shift(factor * line.constant);
                } else {
                    const auto& product = std::get<Product>(node.what);
                    const size_t x = product.left[j], y = product.right[j];
                    // McCormick's two planes: x y <= u y + l x - u l with u an end of x and l the other end of y; the better at the middle.
                    const bool up = factor > 0;
                    const double p = up ? high_[x] : low_[x], q = low_[y], r = up ? low_[x] : high_[x], s = high_[y];
                    if (!(reach(x) * reach(y) < 0x1p125)) {
                        shift(INFINITE);
                        continue;
                    }
                    const double xm = (low_[x] + high_[x]) / 2, ym = (low_[y] + high_[y]) / 2;
                    const double first = p * ym + q * xm - p * q, second = r * ym + s * xm - r * s;
                    const bool take_first = up ? first <= second : first >= second;
                    const double u = take_first ? p : r, l = take_first ? q : s;
                    form_[y] += factor * u;
                    form_[x] += factor * l;
                    shift(-factor * u * l);
                    shift(std::fabs(factor) * (local_[node.begin + j] + 4 * reach(x) * reach(y) * 0x1p-40));
                }
            }
        }
        touched_[0] = 0;
        std::fill(coefficients_.begin(), coefficients_.end(), 0.0);
        for (size_t k = 0; k < plain_.inputs.size(); ++k) {
            if (form_[k] == 0) continue;
            coefficients_[size_t(plain_.inputs[k])] += form_[k];
            shift(std::fabs(form_[k]) * (local_[k] + reach(k) * 0x1p-40));
            form_[k] = 0;
        }
        constant_ += size * 0x1p-40;
    }

    bool is_heard(size_t output, const std::vector<Relation>& rivals) override {
        if (!graph_.softmax) return true;
        double best = -INFINITE;
        for (size_t k = 0; k < rivals.size(); ++k)
            if (k != output && rivals[k] != Relation::INSIDE) best = std::max(best, high_[graph_.score_columns[k]]);
        return best == -INFINITE || best - low_[graph_.score_columns[output]] < SOFTMAX_REACH;
    }

    double margin(size_t a, size_t b) override {
        const size_t mine = graph_.score_columns[a], other = graph_.score_columns[b];
        form_[mine] += 1;
        form_[other] -= 1;
        std::fill(touched_.begin(), touched_.end(), 1);
        descend(graph_.nodes.size());
        if (!graph_.softmax) return 0;
        double best = -INFINITE, slack = 0;
        for (const uint32_t place : graph_.score_columns) best = std::max(best, high_[place]);
        for (const size_t place : {mine, other}) slack += units::ENCLOSURE * std::max({1.0, reach(place), best - low_[place]});
        return slack * (1 + 0x1p-20);
    }

    const PlainGraph& plain_;
    const UnitGraph& graph_;
    std::vector<double> low_, high_, local_, form_;  // per place on the tape
    std::vector<Line> above_, below_;
    std::vector<uint8_t> touched_;  // per node + 1 (0: the inputs)
};

}  // namespace

std::unique_ptr<PolicyBounds> graph_bounds(const PlainGraph& plain) { return std::make_unique<GraphBounds>(plain); }

}  // namespace polvet
