// Evaluate tree ensembles, one row or many, with one fixed order of float operations (see policies/policies.h).
#include "policies/policies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "store/portable.h"

namespace polvet {

Trees::Trees(const Description& d) {
    inputs = d.inputs;
    outputs = d.outputs;
    divisor = d.divisor;
    wide = d.wide;
    strict = d.strict;
    base64.assign(d.base, d.base + d.outputs);
    values64.assign(d.values, d.values + d.value_count);
    if (!wide) {
        base32.assign(base64.begin(), base64.end());
        values32.assign(values64.begin(), values64.end());
    }
    std::vector<char> seen(d.node_count, 0);
    auto enter = [&](int32_t node) {
        if (node < 0 || size_t(node) >= d.node_count)
            throw std::invalid_argument("a tree points to node " + std::to_string(node) + ", which does not exist");
        if (seen[size_t(node)]++) throw std::invalid_argument("node " + std::to_string(node) + " has two parents");
    };
    for (size_t t = 0; t < d.tree_count; ++t) {
        // Breadth first, so that brothers stand side by side and the tops of trees share cache lines.
        const size_t first = nodes.size();
        const bool vector_leaves = d.tree_output[t] < 0;
        if (!vector_leaves && size_t(d.tree_output[t]) >= outputs)
            throw std::invalid_argument("tree " + std::to_string(t) + " adds to an output that does not exist");
        std::vector<int32_t> order{d.roots[t]}, level{0};
        enter(d.roots[t]);
        for (size_t i = 0; i < order.size(); ++i) {
            const size_t node = size_t(order[i]);
            Node packed{};
            if (d.feature[node] < 0) {
                packed.threshold = std::numeric_limits<float>::quiet_NaN();
                packed.left = int32_t(first + i) - 1;
                packed.payload = d.leaf[node];
                if (d.leaf[node] < 0 || size_t(d.leaf[node]) + (vector_leaves ? outputs : 1) > d.value_count)
                    throw std::invalid_argument("leaf " + std::to_string(node) + " has no value");
            } else {
                if (size_t(d.feature[node]) >= inputs)
                    throw std::invalid_argument("node " + std::to_string(node) + " tests an input that does not exist");
                if (std::isnan(d.threshold[node]))
                    throw std::invalid_argument("node " + std::to_string(node) + " has a threshold that is not a number");
                enter(d.left[node]);
                enter(d.right[node]);
                packed.threshold = d.threshold[node];
                packed.left = int32_t(first + order.size());
                packed.feature = d.feature[node];
                packed.payload = d.flags[node];
                zero_is_missing |= static_cast<Missing>(d.flags[node] >> 1) == Missing::zero;
                order.insert(order.end(), {d.left[node], d.right[node]});
                level.insert(level.end(), {level[i] + 1, level[i] + 1});
            }
            nodes.push_back(packed);
        }
        roots.push_back(int32_t(first));
        depth.push_back(level.back());
        tree_output.push_back(d.tree_output[t]);
    }
    make_masks();
}

namespace {

constexpr size_t MASK_BLOCK = 32, MOST_LEAVES = 32, MOST_MASK_BYTES = 4 << 20;
constexpr float MOST_PLACES = 4096;
bool walks_only = false;

size_t place_of(const std::vector<float>& thresholds, float x, bool strict) {
    const auto after = strict ? std::upper_bound(thresholds.begin(), thresholds.end(), x)   // x < threshold goes left
                              : std::lower_bound(thresholds.begin(), thresholds.end(), x);  // x <= threshold goes left
    return size_t(after - thresholds.begin());
}

}  // namespace

void use_walking_trees(bool walking) { walks_only = walking; }

void Trees::make_masks() {
    const size_t count = roots.size();
    std::vector<std::vector<float>> thresholds(inputs);
    struct Cut {
        size_t feature, tree;
        float threshold;
        uint32_t kept;
    };
    std::vector<Cut> cuts;
    for (size_t t = 0; t < count; ++t) {
        // Leaves from left to right, and for every inner node those of its left subtree.
        masks.leaf_begin.push_back(int32_t(masks.leaf.size()));
        const size_t first = masks.leaf.size();
        struct Visit {
            int32_t node;
            size_t begin;
            bool left_done;
        };
        std::vector<Visit> pending{{roots[t], 0, false}};
        while (!pending.empty()) {
            Visit visit = pending.back();
            pending.pop_back();
            const Node& node = nodes[size_t(visit.node)];
            const size_t leaves = masks.leaf.size() - first;
            if (std::isnan(node.threshold)) {
                if (leaves == MOST_LEAVES) {
                    masks = {};
                    return;
                }
                masks.leaf.push_back(node.payload);
            } else if (!visit.left_done) {
                pending.push_back({visit.node, leaves, true});
                pending.push_back({node.left, 0, false});
            } else {
                const uint32_t below = leaves == 32 ? ~0u : (1u << leaves) - 1;
                const uint32_t left = below & ~((1u << visit.begin) - 1);
                cuts.push_back({size_t(node.feature), t, node.threshold, ~left});
                thresholds[size_t(node.feature)].push_back(node.threshold);
                pending.push_back({node.left + 1, 0, false});
            }
        }
    }
    const size_t padded = (count + MASK_BLOCK - 1) / MASK_BLOCK * MASK_BLOCK;
    std::vector<size_t> input_of(inputs);
    size_t rows = 0;
    for (size_t f = 0; f < inputs; ++f) {
        std::vector<float>& mine = thresholds[f];
        if (mine.empty()) continue;
        std::sort(mine.begin(), mine.end());
        mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
        input_of[f] = masks.inputs.size();
        Masks::Input input{uint32_t(f), mine, rows, 0, {}};
        const float low = std::floor(mine.front()) - 1, high = std::ceil(mine.back()) + 1;
        if (std::fabs(low) < 1e6f && std::fabs(high) < 1e6f && high - low < MOST_PLACES && mine.size() < 65536) {
            input.lowest = int32_t(low);
            for (float x = low; x <= high; x += 1) input.place.push_back(uint16_t(place_of(mine, x, strict)));
        }
        rows += mine.size() + 1;
        masks.inputs.push_back(std::move(input));
    }
    if (count == 0 || rows * padded * sizeof(uint32_t) > MOST_MASK_BYTES) {
        masks = {};
        return;
    }
    masks.padded = padded;
    masks.column.resize(count);
    const bool scalar = std::all_of(tree_output.begin(), tree_output.end(), [](int32_t output) { return output >= 0; });
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t(0));
    if (scalar) std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tree_output[a] < tree_output[b]; });
    for (size_t k = 0; k < count; ++k) masks.column[order[k]] = k;
    if (scalar) {
        (wide ? masks.values64.resize(count * MOST_LEAVES) : masks.values32.resize(count * MOST_LEAVES));
        for (size_t k = 0, output = 0; output <= outputs; ++output) {
            masks.output_begin.push_back(k);
            for (; k < count && tree_output[order[k]] == int32_t(output); ++k) {
                const size_t begin = size_t(masks.leaf_begin[order[k]]);
                const size_t end = order[k] + 1 < count ? size_t(masks.leaf_begin[order[k] + 1]) : masks.leaf.size();
                for (size_t i = begin; i < end; ++i) {
                    const size_t value = size_t(masks.leaf[i]);
                    if (wide) masks.values64[k * MOST_LEAVES + i - begin] = values64[value];
                    else masks.values32[k * MOST_LEAVES + i - begin] = values32[value];
                }
            }
        }
    }
    masks.table.assign(rows * padded, ~0u);
    for (const Cut& cut : cuts) {
        const Masks::Input& input = masks.inputs[input_of[cut.feature]];
        const auto at = std::lower_bound(input.thresholds.begin(), input.thresholds.end(), cut.threshold) - input.thresholds.begin();
        // The test fails from the place behind its threshold on.
        for (size_t place = size_t(at) + 1; place <= input.thresholds.size(); ++place)
            masks.table[(input.first + place) * padded + masks.column[cut.tree]] &= cut.kept;
    }
}

namespace {

bool goes_left(float x, float threshold, bool strict) { return strict ? x < threshold : x <= threshold; }

// The walk with missing values; `fast_walk` below is the same without.
const Trees::Node& careful_walk(const Trees& trees, const float* row, size_t tree) {
    size_t node = size_t(trees.roots[tree]);
    for (;;) {
        const Trees::Node& at = trees.nodes[node];
        if (std::isnan(at.threshold)) return at;
        float x = row[at.feature];
        const Missing missing = static_cast<Missing>(at.payload >> 1);
        if (std::isnan(x) && missing != Missing::nan) x = 0.0f;
        // LightGBM calls |x| <= float(1e-35) zero.
        const bool absent = missing == Missing::nan ? std::isnan(x) : missing == Missing::zero && std::fabs(x) <= 1e-35f;
        const bool left = absent ? (at.payload & 1) != 0 : goes_left(x, at.threshold, trees.strict);
        node = size_t(at.left) + (left ? 0 : 1);
    }
}

constexpr size_t WALKERS = 8;  // rows that walk down one tree side by side, to hide the latency of loads
constexpr size_t TREE_BLOCK = 64;
constexpr int32_t SHALLOW = 16;  // up to this depth every walker takes `depth` steps; deeper trees are walked to the leaf

template <bool strict> inline size_t step(const Trees::Node* nodes, size_t node, const float* row) {
    const Trees::Node& at = nodes[node];
    const float x = row[at.feature];
    // A leaf's threshold is NaN: the comparison fails and left + 1 is the leaf itself.
    const bool left = strict ? x < at.threshold : x <= at.threshold;
    return size_t(at.left + (left ? 0 : 1));
}

template <bool strict> void fast_walk(const Trees& trees, const float* rows, size_t count, size_t tree, size_t* leaves) {
    const Trees::Node* nodes = trees.nodes.data();
    const size_t root = size_t(trees.roots[tree]), width = trees.inputs;
    if (trees.depth[tree] <= SHALLOW) {
        if (count == WALKERS) {
            size_t at[WALKERS];
            for (size_t r = 0; r < WALKERS; ++r) at[r] = root;
            const int32_t depth = trees.depth[tree];
            for (int32_t d = 0; d < depth; ++d) {
                POLVET_UNROLL_8
                for (size_t r = 0; r < WALKERS; ++r) at[r] = step<strict>(nodes, at[r], rows + r * width);
            }
            std::copy(at, at + WALKERS, leaves);
        } else {
            for (size_t r = 0; r < count; ++r) {
                size_t at = root;
                for (int32_t d = 0; d < trees.depth[tree]; ++d) at = step<strict>(nodes, at, rows + r * width);
                leaves[r] = at;
            }
        }
        return;
    }
    for (size_t r = 0; r < count; ++r) {
        size_t at = root;
        for (size_t next; (next = step<strict>(nodes, at, rows + r * width)) != at;) at = next;
        leaves[r] = at;
    }
}

// What a leaf of tree t adds to the scores of its row.
template <class Real> inline void add(const Trees& trees, size_t t, const Real* leaf, Real* scores) {
    if (const int32_t output = trees.tree_output[t]; output >= 0) scores[output] += *leaf;
    else
        for (size_t k = 0; k < trees.outputs; ++k) scores[k] += leaf[k];
}

// The leaves that `count` joined rows of masks leave over, for all trees.
POLVET_CLONES void join_masks(const uint32_t* const* rows, size_t count, size_t padded, uint32_t* out) {
    typedef uint32_t Lanes POLVET_VECTOR(32, uint32_t);
    for (size_t begin = 0; begin < padded; begin += MASK_BLOCK) {
        const Lanes all = ~Lanes{};
        Lanes a = all, b = all, c = all, d = all;  // MASK_BLOCK trees
        for (size_t k = 0; k < count; ++k) {
            const Lanes* row = reinterpret_cast<const Lanes*>(rows[k] + begin);
            a &= row[0];
            b &= row[1];
            c &= row[2];
            d &= row[3];
        }
        Lanes* target = reinterpret_cast<Lanes*>(out + begin);
        target[0] = a;
        target[1] = b;
        target[2] = c;
        target[3] = d;
    }
}

// Add the leaves that a row without missing values reaches, for all trees.
template <class Real> void mask_walk(const Trees& trees, const float* row, const Real* values, Real* scores) {
    const Trees::Masks& masks = trees.masks;
    thread_local std::vector<const uint32_t*> rows;
    thread_local std::vector<uint32_t> left;
    rows.resize(masks.inputs.size());
    left.resize(masks.padded);
    for (size_t k = 0; k < rows.size(); ++k) {
        const Trees::Masks::Input& input = masks.inputs[k];
        const float x = row[input.feature];
        const int32_t whole = x > -1e6f && x < 1e6f ? int32_t(x) : INT32_MAX;
        const size_t number = size_t(uint32_t(whole) - uint32_t(input.lowest));
        const size_t place =
            float(whole) == x && number < input.place.size() ? input.place[number] : place_of(input.thresholds, x, trees.strict);
        rows[k] = masks.table.data() + (input.first + place) * masks.padded;
    }
    join_masks(rows.data(), rows.size(), masks.padded, left.data());
    if (masks.output_begin.empty()) {
        for (size_t t = 0; t < trees.roots.size(); ++t)
            add(trees, t, values + masks.leaf[size_t(masks.leaf_begin[t] + lowest_bit(left[masks.column[t]]))], scores);
        return;
    }
    const Real* leaves;
    if constexpr (std::is_same_v<Real, double>) leaves = masks.values64.data();
    else leaves = masks.values32.data();
    for (size_t k = 0; k < trees.outputs; ++k) {  // the sum of each output in tree order, as ever
        Real sum = scores[k];
        for (size_t c = masks.output_begin[k]; c < masks.output_begin[k + 1]; ++c)
            sum += leaves[c * MOST_LEAVES + size_t(lowest_bit(left[c]))];
        scores[k] = sum;
    }
}

// Call use(row index, scores of that row) for every row, in order; Real is the arithmetic of the ensemble.
template <class Real, class Use> void for_each_scored_row(const Trees& trees, const float* rows, size_t n, Use use) {
    const size_t outputs = trees.outputs;
    const Real* values;
    const Real* base;
    if constexpr (std::is_same_v<Real, double>) {
        values = trees.values64.data();
        base = trees.base64.data();
    } else {
        values = trees.values32.data();
        base = trees.base32.data();
    }
    thread_local std::vector<Real> sums;
    sums.resize(TREE_BLOCK * outputs);
    Real* acc = sums.data();
    for (size_t row = 0; row < n; row += TREE_BLOCK) {
        // All rows of a block pass one tree before the next, so that its nodes are fetched once per block.
        const size_t count = std::min(TREE_BLOCK, n - row);
        const float* block = rows + row * trees.inputs;
        bool careful[TREE_BLOCK / WALKERS];
        for (size_t first = 0; first < count; first += WALKERS) {
            const size_t end = std::min(first + WALKERS, count) * trees.inputs;
            bool missing = trees.zero_is_missing;
            for (size_t i = first * trees.inputs; i < end; ++i) missing |= block[i] != block[i];
            careful[first / WALKERS] = missing;
        }
        for (size_t r = 0; r < count; ++r) std::copy(base, base + outputs, acc + r * outputs);
        const bool masked = trees.masks.padded != 0 && !walks_only &&
                            std::none_of(careful, careful + (count + WALKERS - 1) / WALKERS, [](bool c) { return c; });
        if (masked)
            for (size_t r = 0; r < count; ++r) mask_walk(trees, block + r * trees.inputs, values, acc + r * outputs);
        for (size_t t = 0; !masked && t < trees.roots.size(); ++t) {
            size_t leaves[TREE_BLOCK];
            for (size_t first = 0; first < count; first += WALKERS) {
                const size_t group = std::min(WALKERS, count - first);
                const float* start = block + first * trees.inputs;
                if (careful[first / WALKERS])
                    for (size_t r = 0; r < group; ++r)
                        leaves[first + r] = size_t(&careful_walk(trees, start + r * trees.inputs, t) - trees.nodes.data());
                else if (trees.strict) fast_walk<true>(trees, start, group, t, leaves + first);
                else fast_walk<false>(trees, start, group, t, leaves + first);
            }
            for (size_t r = 0; r < count; ++r) add(trees, t, values + trees.nodes[leaves[r]].payload, acc + r * outputs);
        }
        if (trees.divisor != 0)
            for (size_t i = 0; i < count * outputs; ++i) acc[i] /= static_cast<Real>(trees.divisor);
        for (size_t r = 0; r < count; ++r) use(row + r, acc + r * outputs);
    }
}

template <class Use> void for_each_scored_row(const Trees& trees, const float* rows, size_t n, Use use) {
    if (trees.wide) for_each_scored_row<double>(trees, rows, n, use);
    else for_each_scored_row<float>(trees, rows, n, use);
}

}  // namespace

void Trees::scores(const float* rows, size_t n, float* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const auto* result) {
        for (size_t k = 0; k < outputs; ++k) out[row * outputs + k] = float(result[k]);
    });
}

void Trees::scores(const float* rows, size_t n, double* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const auto* result) { std::copy(result, result + outputs, out + row * outputs); });
}

void Trees::choose(const float* rows, size_t n, const uint8_t* applicable, int32_t* out) const {
    for_each_scored_row(*this, rows, n, [&](size_t row, const auto* result) {
        out[row] = best_index(result, outputs, applicable ? applicable + row * outputs : nullptr);
    });
}

int32_t Trees::leaf_of(const float* row, size_t tree) const { return careful_walk(*this, row, tree).payload; }

}  // namespace polvet
