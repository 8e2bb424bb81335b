// One training step of the Burgers network, forward and backward, without a tape of tensor operations.
//
// The network is 2 -> WIDTH x layers -> 1 with tanh. Beside each unit's value h two derivatives travel
// forward through the layers: h_x, and q = L h with the linear operator L = d/dt - nu(t) d2/dx2. For
// y = tanh(a), s = 1 - y^2 and a_x, L a from the layer's linear map, the chain rule gives
//
//     y_x = s a_x,        L y = s (L a + 2 nu y a_x^2),
//
// so the residual u_t + u u_x - nu u_xx = L u + u u_x needs three streams instead of the four of
// (u, u_x, u_t, u_xx). The backward pass below is the transpose of exactly these formulas.
//
// Layout: points are handled in blocks of BLOCK = VECTORS * LANES. A buffer holds, for each unit, its
// streams, and for each stream VECTORS vectors of LANES points: [unit][stream][vector]. The tape keeps (y,
// a_x, L a) of every layer and block between the two calls, because the loss is computed elsewhere in
// between.
//
// Parameters, flat: W0 (WIDTH, 2), b0 | W (WIDTH, WIDTH), b | ... | w_out (WIDTH), b_out.
#include "vectors.hpp"

constexpr int BLOCK = VECTORS * LANES, MAX_LAYERS = 16;
constexpr int HIDDEN = WIDTH * WIDTH + WIDTH, FIRST = 3 * WIDTH;

// STREAMS is 3 for collocation points and 1 where only the value u is needed (initial and boundary points).
template <int STREAMS>
struct Pass {
    static constexpr int COLUMNS = STREAMS * VECTORS, SIZE = WIDTH * COLUMNS;

    // From (a, a_x, L a) on the tape to (y, y_x, L y) in h; a is replaced by y = tanh(a + bias).
    INLINE void activate(const double* bias, const Vector* nu, Vector* tape, Vector* h) {
        for (int j = 0; j < WIDTH; j++)
            for (int v = 0; v < VECTORS; v++) {
                Vector& a = tape[j * COLUMNS + v];
                a = tanh_of(a + bias[j]);
            }
        streams(nu, tape, h);
    }

    INLINE void streams(const Vector* nu, const Vector* tape, Vector* h) {
        for (int j = 0; j < WIDTH; j++)
            for (int v = 0; v < VECTORS; v++) {
                const int at = j * COLUMNS + v;
                const Vector y = h[at] = tape[at];
                if constexpr (STREAMS == 3) {
                    const Vector s = 1.0 - y * y, a_x = tape[at + VECTORS], a_q = tape[at + 2 * VECTORS];
                    h[at + VECTORS] = s * a_x;
                    h[at + 2 * VECTORS] = s * (a_q + 2.0 * nu[v] * y * a_x * a_x);
                }
            }
    }

    // The transpose of activate: g holds the adjoints of (y, y_x, L y) and receives those of (a, a_x, L a).
    INLINE void differentiate(const Vector* nu, const Vector* tape, Vector* g, Vector* bias_sum) {
        for (int j = 0; j < WIDTH; j++)
            for (int v = 0; v < VECTORS; v++) {
                const int at = j * COLUMNS + v;
                const Vector y = tape[at], s = 1.0 - y * y;
                Vector g_y = g[at];
                if constexpr (STREAMS == 3) {
                    const Vector a_x = tape[at + VECTORS], a_q = tape[at + 2 * VECTORS];
                    const Vector g_x = g[at + VECTORS], g_q = g[at + 2 * VECTORS];
                    const Vector spread = 2.0 * nu[v] * a_x * g_q;
                    g_y += spread * a_x * (3.0 * s - 2.0) - 2.0 * y * (g_x * a_x + g_q * a_q);
                    g[at + VECTORS] = s * (g_x + 2.0 * y * spread);
                    g[at + 2 * VECTORS] = s * g_q;
                }
                bias_sum[j] += g[at] = s * g_y;
            }
    }

    // tape: layers * SIZE vectors, filled; out: (u, u_x, L u) or u, COLUMNS vectors.
    static void forward(const double* theta, int layers, const Vector* x, const Vector* t, const Vector* nu,
                        Vector* tape, Vector* out) {
        Vector h[SIZE];
        for (int j = 0; j < WIDTH; j++)
            for (int v = 0; v < VECTORS; v++) {
                Vector* a = tape + j * COLUMNS + v;
                a[0] = theta[2 * j] * x[v] + theta[2 * j + 1] * t[v];
                if constexpr (STREAMS == 3) {
                    a[VECTORS] = splat(theta[2 * j]);
                    a[2 * VECTORS] = splat(theta[2 * j + 1]);
                }
            }
        activate(theta + 2 * WIDTH, nu, tape, h);
        const double* w = theta + FIRST;
        for (int layer = 1; layer < layers; layer++, w += HIDDEN) {
            tape += SIZE;
            matmul<COLUMNS, WIDTH, 1>(w, h, tape);
            activate(w + WIDTH * WIDTH, nu, tape, h);
        }
        for (int c = 0; c < COLUMNS; c++) out[c] = splat(c < VECTORS ? w[WIDTH] : 0.0);
        for (int j = 0; j < WIDTH; j++)
            for (int c = 0; c < COLUMNS; c++) out[c] += w[j] * h[j * COLUMNS + c];
    }

    // Sums over points that stay vectors until the last block: everything but the hidden weight matrices.
    struct Sums {
        Vector bias[MAX_LAYERS][WIDTH], in_x[WIDTH], in_t[WIDTH], out[WIDTH], out_bias;
    };

    static void backward(const double* theta, int layers, const Vector* x, const Vector* t, const Vector* nu,
                         const Vector* tape, const Vector* g_out, Sums& sums, double* gradient) {
        Vector h[SIZE], buffer[2][SIZE], *g = buffer[0], *next = buffer[1];
        int place = FIRST + (layers - 1) * HIDDEN;
        tape += (layers - 1) * SIZE;
        streams(nu, tape, h);
        for (int v = 0; v < VECTORS; v++) sums.out_bias += g_out[v];
        for (int j = 0; j < WIDTH; j++)
            for (int c = 0; c < COLUMNS; c++) {
                sums.out[j] += g_out[c] * h[j * COLUMNS + c];
                g[j * COLUMNS + c] = theta[place + j] * g_out[c];
            }
        for (int layer = layers - 1; layer > 0; layer--, tape -= SIZE) {
            place -= HIDDEN;
            differentiate(nu, tape, g, sums.bias[layer]);
            streams(nu, tape - SIZE, h);
            add_outer<COLUMNS>(g, h, gradient + place);
            matmul<COLUMNS, 1, WIDTH>(theta + place, g, next);
            std::swap(g, next);
        }
        differentiate(nu, tape, g, sums.bias[0]);
        for (int j = 0; j < WIDTH; j++)
            for (int v = 0; v < VECTORS; v++) {
                const Vector* d = g + j * COLUMNS + v;
                sums.in_x[j] += d[0] * x[v];
                sums.in_t[j] += d[0] * t[v];
                if constexpr (STREAMS == 3) {
                    sums.in_x[j] += d[VECTORS];
                    sums.in_t[j] += d[2 * VECTORS];
                }
            }
    }

    static void add_sums(const Sums& sums, int layers, double* gradient) {
        for (int j = 0; j < WIDTH; j++) {
            gradient[2 * j] += total(sums.in_x[j]);
            gradient[2 * j + 1] += total(sums.in_t[j]);
            for (int layer = 0; layer < layers; layer++)
                gradient[FIRST + layer * HIDDEN - WIDTH + j] += total(sums.bias[layer][j]);
            gradient[FIRST + (layers - 1) * HIDDEN + j] += total(sums.out[j]);
        }
        gradient[FIRST + (layers - 1) * HIDDEN + WIDTH] += total(sums.out_bias);
    }

    static double total(Vector v) {
        double sum = 0;
        for (int k = 0; k < LANES; k++) sum += v[k];
        return sum;
    }
};

// One block of a per-point array; the last is filled up with zeros: ordinary points whose adjoint is zero.
struct Slice {
    Vector v[VECTORS] = {};

    Slice() = default;
    Slice(const double* values, int from, int n) { memcpy(v, values + from, bytes(from, n)); }
    void store(double* values, int from, int n) const { memcpy(values + from, v, bytes(from, n)); }
    static size_t bytes(int from, int n) { return sizeof(double) * (n - from < BLOCK ? n - from : BLOCK); }
};

INLINE Vector* aligned(const double* p) { return (Vector*)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

extern "C" {

int burgers_max_layers() { return MAX_LAYERS; }

// Doubles a tape needs for n points with 3 streams (residual) or 1 (value).
size_t burgers_tape(int layers, int streams, int n) {
    return (size_t)((n + BLOCK - 1) / BLOCK) * BLOCK * layers * WIDTH * streams + 8;
}

void burgers_tanh(int n, const double* in, double* out) {
    for (int at = 0; at < n; at += BLOCK) {
        Slice s(in, at, n);
        for (Vector& v : s.v) v = tanh_of(v);
        s.store(out, at, n);
    }
}

void burgers_residual_forward(const double* theta, int layers, int n, const double* x, const double* t,
                              const double* nu, double* tape, double* u, double* u_x, double* residual) {
    using P = Pass<3>;
    Vector* kept = aligned(tape);
    for (int at = 0; at < n; at += BLOCK, kept += layers * P::SIZE) {
        const Slice xs(x, at, n), ts(t, at, n), nus(nu, at, n);
        Vector out[P::COLUMNS];
        P::forward(theta, layers, xs.v, ts.v, nus.v, kept, out);
        Slice value, slope, rest;
        for (int v = 0; v < VECTORS; v++) {
            value.v[v] = out[v];
            slope.v[v] = out[VECTORS + v];
            rest.v[v] = out[2 * VECTORS + v] + out[v] * out[VECTORS + v];
        }
        value.store(u, at, n);
        slope.store(u_x, at, n);
        rest.store(residual, at, n);
    }
}

// Adds to `gradient` that of sum(g_residual * residual); `tape`, `u`, `u_x` as the forward call left them.
void burgers_residual_backward(const double* theta, int layers, int n, const double* x, const double* t,
                               const double* nu, const double* tape, const double* u, const double* u_x,
                               const double* g_residual, double* gradient) {
    using P = Pass<3>;
    P::Sums sums = {};
    const Vector* kept = aligned(tape);
    for (int at = 0; at < n; at += BLOCK, kept += layers * P::SIZE) {
        const Slice xs(x, at, n), ts(t, at, n), nus(nu, at, n);
        const Slice g(g_residual, at, n), value(u, at, n), slope(u_x, at, n);
        Vector g_out[P::COLUMNS];
        for (int v = 0; v < VECTORS; v++) {
            g_out[v] = g.v[v] * slope.v[v];
            g_out[VECTORS + v] = g.v[v] * value.v[v];
            g_out[2 * VECTORS + v] = g.v[v];
        }
        P::backward(theta, layers, xs.v, ts.v, nus.v, kept, g_out, sums, gradient);
    }
    P::add_sums(sums, layers, gradient);
}

void burgers_value_forward(const double* theta, int layers, int n, const double* x, const double* t,
                           double* tape, double* u) {
    using P = Pass<1>;
    Vector* kept = aligned(tape);
    for (int at = 0; at < n; at += BLOCK, kept += layers * P::SIZE) {
        const Slice xs(x, at, n), ts(t, at, n);
        Slice out;
        P::forward(theta, layers, xs.v, ts.v, nullptr, kept, out.v);
        out.store(u, at, n);
    }
}

// Adds to `gradient` that of sum(g_u * u).
void burgers_value_backward(const double* theta, int layers, int n, const double* x, const double* t,
                            const double* tape, const double* g_u, double* gradient) {
    using P = Pass<1>;
    P::Sums sums = {};
    const Vector* kept = aligned(tape);
    for (int at = 0; at < n; at += BLOCK, kept += layers * P::SIZE) {
        const Slice xs(x, at, n), ts(t, at, n), g(g_u, at, n);
        P::backward(theta, layers, xs.v, ts.v, nullptr, kept, g.v, sums, gradient);
    }
    P::add_sums(sums, layers, gradient);
}

}  // extern "C"
