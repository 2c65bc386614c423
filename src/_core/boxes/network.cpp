// Backward linear bounds of a network's margins over a box and rows; see boxes.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "boxes/boxes.h"
#include "boxes/margins.h"

namespace polvet {

struct PlainNetwork {
    struct Layer {
        size_t inputs, outputs;
        std::vector<double> weights, bias;
    };  // weights [outputs][inputs]
    std::vector<Layer> layers;           // the inputs of the first layer are variables
    size_t variables = 0, summands = 0;  // summands: of the longest chain of additions through all layers
    bool softmax = false;
};

std::shared_ptr<const PlainNetwork> make_plain(const Mlp& net, const std::vector<int32_t>& inputs, size_t variables) {
    auto plain = std::make_shared<PlainNetwork>();
    plain->variables = variables;
    plain->softmax = net.softmax;
    for (size_t l = 0; l < net.layers.size(); ++l) {
        const Mlp::Layer& layer = net.layers[l];
        PlainNetwork::Layer made{l ? layer.inputs : variables, layer.outputs, {}, {}};
        made.weights.assign(made.inputs * made.outputs, 0.0);
        for (size_t j = 0; j < layer.outputs; ++j) {
            made.bias.push_back(layer.bias[j]);
            for (size_t k = 0; k < layer.inputs; ++k)
                made.weights[j * made.inputs + (l ? k : size_t(inputs[k]))] += double(layer.weights[k * layer.padded + j]);
        }
        plain->summands += made.inputs + layer.inputs + 4;
        plain->layers.push_back(std::move(made));
    }
    return plain;
}

POLVET_CLONES void add_multiple(double* target, const double* source, double factor, size_t count) {
    for (size_t k = 0; k < count; ++k) target[k] += factor * source[k];
}

namespace {

class NetworkBounds final : public MarginBounds {
public:
    NetworkBounds(const PlainNetwork& net, const Box& root) : MarginBounds(net.variables), net_(net) {
        // How far a float32 evaluation in any order can be from exact arithmetic, per neuron: Higham's gamma over the sum of
        // absolute values. SOUND: `reach` also bounds every path product of the backward pass, a power of two per layer more;
        // that pass is in double, so its errors are a small part of `error`, which `inflate` more than covers.
        const size_t depth = net.layers.size();
        std::vector<double> reach(net.variables), error(net.variables);
        for (size_t v = 0; v < net.variables; ++v) {
            reach[v] = std::max(std::fabs(double(root.lower[v])), std::fabs(double(root.upper[v])));
            error[v] = reach[v] > 0x1p24 ? reach[v] * 0x1p-23 : 0;  // the input is the nearest float32
        }
        const double inflate = 1.01 + double(net.summands) * std::ldexp(1.0, int(depth)) * 0x1p-27;
        for (size_t l = 0; l < depth; ++l) {
            const auto& layer = net.layers[l];
            std::vector<double> next(layer.outputs), wrong(layer.outputs);
            const double m = double(layer.inputs) + 4, gamma = m * 0x1p-24 / (1 - m * 0x1p-24);
            for (size_t j = 0; j < layer.outputs; ++j) {
                double sum = std::fabs(layer.bias[j]), moved = 0;
                const double* w = layer.weights.data() + j * layer.inputs;
                for (size_t k = 0; k < layer.inputs; ++k) {
                    sum += std::fabs(w[k]) * (reach[k] + error[k]);
                    moved += std::fabs(w[k]) * error[k];
                }
                next[j] = sum * (1 + 0x1p-30);
                wrong[j] = (moved + gamma * sum + 64 * m * 0x1p-126) * inflate;
                if (!(next[j] + wrong[j] < 0x1p126) || m > 0x1p20) wrong[j] = std::numeric_limits<double>::infinity();
            }
            if (net.softmax && l + 1 == depth) {  // as in Mlp::rounding_bounds, with the greatest scores of the root box
                const double most = *std::max_element(next.begin(), next.end()) + *std::max_element(wrong.begin(), wrong.end());
                for (double& off : wrong) off += 0x1p-20 * std::max(1.0, 2 * most) * 1.01;
            }
            errors_.push_back(wrong);
            reach.swap(next);
            error.swap(wrong);
        }
        low_.resize(depth);
        high_.resize(depth);
        for (size_t l = 0; l < depth; ++l) {
            low_[l].resize(net.layers[l].outputs);
            high_[l].resize(net.layers[l].outputs);
        }
    }

private:
    // The linear form of layer `l`'s input below `work_` (over the neurons of layer l), carried down to the variables.
    void carry_down(size_t l) {
        for (;; --l) {
            const auto& layer = net_.layers[l];
            const bool bottom = l == 0;
            std::vector<double>& next = bottom ? coefficients_ : spare_;
            next.assign(layer.inputs, 0.0);
            for (size_t j = 0; j < layer.outputs; ++j) {
                const double factor = work_[j];
                if (factor == 0) continue;
                constant_ += factor * layer.bias[j];
                const double* w = layer.weights.data() + j * layer.inputs;
                add_multiple(next.data(), w, factor, layer.inputs);
            }
            if (bottom) return;
            relax(next, l - 1);
            work_.swap(next);
        }
    }

    // Replace ReLU outputs of layer l by linear functions of its inputs, from above where the factor is positive, else from below.
    void relax(std::vector<double>& factors, size_t l) {
        const std::vector<double>&low = low_[l], &high = high_[l];
        for (size_t k = 0; k < factors.size(); ++k) {
            if (factors[k] == 0 || low[k] >= 0) continue;
            if (high[k] <= 0) {
                factors[k] = 0;
                continue;
            }
            if (factors[k] > 0) {
                const double slope = high[k] / (high[k] - low[k]);
                constant_ -= factors[k] * slope * low[k];
                factors[k] *= slope;
            } else if (high[k] < -low[k]) {
                factors[k] = 0;
            }
        }
    }

    bool recall(const std::vector<double>& known) override {
        if (known.empty()) return false;
        const double* at = known.data();
        for (size_t l = 0; l + 1 < low_.size(); ++l)
            for (auto* side : {&low_[l], &high_[l]}) {
                std::copy(at, at + side->size(), side->begin());
                at += side->size();
            }
        return true;
    }

    void remember(std::vector<double>& known) const override {
        known.clear();
        for (size_t l = 0; l + 1 < low_.size(); ++l)
            for (const auto* side : {&low_[l], &high_[l]}) known.insert(known.end(), side->begin(), side->end());
    }

    void bound_hidden(bool known) override {
        for (size_t l = 0; l + 1 < net_.layers.size(); ++l) bound_layer(l, known);
    }

    // With `known`, neurons of one sign are left alone, others can only get narrower.
    void bound_layer(size_t l, bool known) {
        const auto& layer = net_.layers[l];
        for (size_t j = 0; j < layer.outputs; ++j) {
            if (known && (low_[l][j] >= 0 || high_[l][j] <= 0)) continue;
            for (const double sign : {1.0, -1.0}) {
                constant_ = 0;
                if (l == 0) {
                    constant_ = sign * layer.bias[j];
                    const double* w = layer.weights.data() + j * layer.inputs;
                    for (size_t k = 0; k < layer.inputs; ++k) coefficients_[k] = sign * w[k];
                } else {
                    const double* w = layer.weights.data() + j * layer.inputs;
                    work_.assign(w, w + layer.inputs);
                    if (sign < 0)
                        for (double& x : work_) x = -x;
                    constant_ = sign * layer.bias[j];
                    relax(work_, l - 1);
                    carry_down(l - 1);
                }
                double shift = 0;
                const double bound = maximise(coefficients_.data(), shift, reduced_.data()) + constant_ + errors_[l][j];
                double& end = sign > 0 ? high_[l][j] : low_[l][j];
                if (!known) end = sign * bound;
                else if (sign > 0 ? bound < end : -bound > end) end = sign * bound;
            }
        }
    }

    bool is_heard(size_t output, const std::vector<Relation>& rivals) override {
        if (!net_.softmax) return true;
        double best = -std::numeric_limits<double>::infinity();
        for (size_t k = 0; k < rivals.size(); ++k)
            if (k != output && rivals[k] != Relation::INSIDE) best = std::max(best, greatest(k, 1));
        return best == -std::numeric_limits<double>::infinity() || best + greatest(output, -1) < SOFTMAX_REACH;
    }

    // At least the greatest value of sign * score, by interval arithmetic over what the last layer reads.
    double greatest(size_t output, double sign) const {
        const size_t last = net_.layers.size() - 1;
        const auto& layer = net_.layers[last];
        double sum = sign * layer.bias[output];
        for (size_t k = 0; k < layer.inputs; ++k) {
            const double w = sign * layer.weights[output * layer.inputs + k];
            const double low = last == 0 ? lower_[k] : std::max(low_[last - 1][k], 0.0);
            const double high = last == 0 ? upper_[k] : std::max(high_[last - 1][k], 0.0);
            if (w != 0) sum += w > 0 ? w * high : w * low;
        }
        return sum + errors_[last][output];
    }

    double margin(size_t a, size_t b) override {
        const size_t last = net_.layers.size() - 1;
        const double slack = errors_[last][a] + errors_[last][b];
        const auto& layer = net_.layers[last];
        constant_ = layer.bias[a] - layer.bias[b];
        const double *w = layer.weights.data() + a * layer.inputs, *v = layer.weights.data() + b * layer.inputs;
        if (last == 0) {
            for (size_t k = 0; k < layer.inputs; ++k) coefficients_[k] = w[k] - v[k];
            return slack;
        }
        work_.resize(layer.inputs);
        for (size_t k = 0; k < layer.inputs; ++k) work_[k] = w[k] - v[k];
        relax(work_, last - 1);
        carry_down(last - 1);
        return slack;
    }

    const PlainNetwork& net_;
    std::vector<std::vector<double>> errors_, low_, high_;  // per layer and neuron
    std::vector<double> work_, spare_;
};

}  // namespace

std::unique_ptr<PolicyBounds> network_bounds(const PlainNetwork& net, const Box& root) {
    return std::make_unique<NetworkBounds>(net, root);
}

}  // namespace polvet
