// One layer of a network for R rows: included once per instruction set by policies/network.cpp, so that the same text is compiled
// with different vector registers. Every lane is one neuron; the order of operations inside a lane never changes.
typedef float Lanes POLVET_VECTOR(32, float);
typedef int32_t Bits POLVET_VECTOR(32, int32_t);
typedef int16_t Grains POLVET_VECTOR(16, int16_t);

template <int R, int V>
static POLVET_INLINE void tile(const float* x, size_t x_stride, const float* weights, size_t padded, size_t inputs, const float* bias,
                               float* out, size_t out_stride, bool rectify) {
    Lanes acc[R][V];
    for (int v = 0; v < V; ++v)
        for (int r = 0; r < R; ++r) acc[r][v] = *reinterpret_cast<const Lanes*>(bias + 8 * v);
    for (size_t k = 0; k < inputs; ++k) {
        const float* column = weights + k * padded;
        for (int r = 0; r < R; ++r) {
            const float value = x[r * x_stride + k];
            const Lanes factor = {value, value, value, value, value, value, value, value};
            for (int v = 0; v < V; ++v) acc[r][v] = acc[r][v] + *reinterpret_cast<const Lanes*>(column + 8 * v) * factor;
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) {
            Lanes* target = reinterpret_cast<Lanes*>(out + r * out_stride + 8 * v);
            // A NaN must survive, so that a broken score is seen: only values that compare below or equal to zero are cut.
            *target = rectify ? (acc[r][v] <= 0.0f ? Lanes{} : acc[r][v]) : acc[r][v];
        }
}

template <int R, int V>
static POLVET_INLINE void sweep(const float* x, size_t x_stride, const Mlp::Layer& layer, float* out, size_t out_stride, bool rectify,
                                size_t& column) {
    for (; column + 8 * V <= layer.padded; column += 8 * V)
        tile<R, V>(x, x_stride, layer.weights.data() + column, layer.padded, layer.inputs, layer.bias.data() + column, out + column,
                   out_stride, rectify);
}

static void four_rows(const float* x, size_t x_stride, const Mlp::Layer& layer, float* out, size_t out_stride, bool rectify) {
    size_t column = 0;
    sweep<4, 2>(x, x_stride, layer, out, out_stride, rectify, column);
    sweep<4, 1>(x, x_stride, layer, out, out_stride, rectify, column);
}

static void one_row(const float* x, size_t x_stride, const Mlp::Layer& layer, float* out, size_t out_stride, bool rectify) {
    size_t column = 0;
    sweep<1, 8>(x, x_stride, layer, out, out_stride, rectify, column);
    sweep<1, 4>(x, x_stride, layer, out, out_stride, rectify, column);
    sweep<1, 2>(x, x_stride, layer, out, out_stride, rectify, column);
    sweep<1, 1>(x, x_stride, layer, out, out_stride, rectify, column);
}

// What the rounding bounds of one layer rest on, for one row: per neuron the sum of |weight| |x|, the sum of |weight| distance,
// and the exponent of which every product is a multiple. Returns how many inputs are not surely zero.
static size_t bound_sums(const float* x, const float* distance, const Mlp::Layer& layer, float* magnitude, float* moved, int16_t* grain) {
    struct Input {
        size_t row;
        float size, distance;
        int16_t grain;
    };
    thread_local std::vector<Input> present;
    present.clear();
    for (size_t k = 0; k < layer.inputs; ++k)
        if (x[k] != 0 || distance[k] != 0)
            present.push_back({k * layer.padded, std::fabs(x[k]), distance[k], distance[k] > 0 ? INEXACT_GRAIN : grain_of(x[k])});
    for (size_t column = 0; column < layer.padded; column += 8) {
        Lanes* sizes = reinterpret_cast<Lanes*>(magnitude + column);
        Lanes* moves = reinterpret_cast<Lanes*>(moved + column);
        Grains* grains = reinterpret_cast<Grains*>(grain + column);
        Lanes size = *sizes, move = *moves;
        Grains least = *grains;
        for (const Input& input : present) {
            const Bits bits = *reinterpret_cast<const Bits*>(layer.weights.data() + input.row + column) & 0x7fffffff;
            const Lanes weight = reinterpret_cast<const Lanes&>(bits);
            size = size + weight * input.size;
            move = move + weight * input.distance;
            const Grains product = *reinterpret_cast<const Grains*>(layer.weight_grain.data() + input.row + column) + input.grain;
            least = product < least ? product : least;
        }
        *sizes = size;
        *moves = move;
        *grains = least;
    }
    return present.size();
}
