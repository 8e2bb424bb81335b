// Vectors of doubles, and the three loops the kernel spends its time in: tanh and the two matrix products.
//
// Written with the vector extensions of GCC and clang: the same code becomes AVX-512, AVX2, SSE or NEON
// instructions, whichever the compiler is told the machine has.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#ifndef WIDTH
#define WIDTH 32
#endif

// Points in a vector, vectors of points in a block, rows of the gradient that are summed at once: as many as
// the 32 (AVX-512) or 16 registers hold.
#if defined(__AVX512F__)
constexpr int LANES = 8, VECTORS = 2, GRAD_ROWS = 2;
#elif defined(__AVX__)
constexpr int LANES = 4, VECTORS = 1, GRAD_ROWS = 2;
#else
constexpr int LANES = 2, VECTORS = 1, GRAD_ROWS = 4;
#endif
constexpr int TILE = 4;  // units that a matrix product keeps in registers
static_assert(WIDTH % 8 == 0, "the register tiles need a multiple of eight units");

typedef double Vector __attribute__((vector_size(LANES * 8)));
typedef int64_t Integers __attribute__((vector_size(LANES * 8)));
typedef double Unaligned __attribute__((vector_size(LANES * 8), aligned(8), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE Vector splat(double a) { return a - Vector{}; }

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Integers{__VA_ARGS__})
#endif

// tanh to a few units in the last place: expm1(2|x|) / (expm1(2|x|) + 2). The argument is reduced by
// multiples of ln 2; expm1 of the rest r is a Taylor polynomial, whose relative remainder at |r| <= ln(2)/2
// is below 1e-17.
INLINE Vector tanh_of(Vector x) {
    const Vector shift = splat(0x1.8p52);  // adding it rounds to an integer that sits in the low bits
    const Integers sign = (Integers)x & INT64_MIN;
    Vector y = 2.0 * (Vector)((Integers)x & INT64_MAX);
    y = y > 40.0 ? splat(40.0) : y;  // tanh(20) is 1 in double precision; a NaN stays one
    const Vector rounded = y * 0x1.71547652b82fep0 + shift, n = rounded - shift;
    const Vector r = (y - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    const double inverse_factorials[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                         1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                         1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
    Vector p = splat(inverse_factorials[0]);
    for (int k = 1; k < 12; k++) p = p * r + inverse_factorials[k];
    const Vector small = r + r * r * p;  // expm1(r)
    const Vector power = (Vector)(((Integers)rounded + 1023) << 52);
    const Vector e = power * small + (power - 1.0);
    return (Vector)((Integers)(e / (e + 2.0)) | sign);
}

// Sums LANES vectors over their lanes at once: lane k of the result is the sum of rows[k].
template <int D, int... K>
INLINE Vector fold_pair(Vector a, Vector b, std::integer_sequence<int, K...>) {
    return SHUFFLE(a, b, (K % (2 * D) < D ? K : K - D + LANES)...) +
           SHUFFLE(a, b, (K % (2 * D) < D ? K + D : K + LANES)...);
}
template <int D = 1>
INLINE Vector fold(const Vector* rows) {
    if constexpr (D == LANES) return rows[0];
    else {
        Vector half[LANES];
        for (int k = 0; k < LANES / D / 2; k++)
            half[k] = fold_pair<D>(rows[2 * k], rows[2 * k + 1], std::make_integer_sequence<int, LANES>{});
        return fold<2 * D>(half);
    }
}

// out[j][c] = sum_i W(j, i) in[i][c] for all columns c; W(j, i) = w[j * ROW + i * COLUMN].
template <int COLUMNS, int ROW, int COLUMN>
INLINE void matmul(const double* w, const Vector* in, Vector* out) {
    for (int j = 0; j < WIDTH; j += TILE) {
        Vector sum[TILE][COLUMNS] = {};
        for (int i = 0; i < WIDTH; i++)
#pragma GCC unroll 4
            for (int k = 0; k < TILE; k++) {
                const Vector weight = splat(w[(j + k) * ROW + i * COLUMN]);
#pragma GCC unroll 8
                for (int c = 0; c < COLUMNS; c++) sum[k][c] += weight * in[i * COLUMNS + c];
            }
        memcpy(out + j * COLUMNS, sum, sizeof sum);
    }
}

// gradient[j][i] += sum over columns and lanes of d[j][c] h[i][c]
template <int COLUMNS>
INLINE void add_outer(const Vector* d, const Vector* h, double* gradient) {
    for (int j = 0; j < WIDTH; j += GRAD_ROWS)
        for (int i = 0; i < WIDTH; i += LANES) {
            Vector sum[GRAD_ROWS][LANES] = {};
#pragma GCC unroll 8
            for (int c = 0; c < COLUMNS; c++)
#pragma GCC unroll 4
                for (int k = 0; k < GRAD_ROWS; k++)
#pragma GCC unroll 8
                    for (int m = 0; m < LANES; m++)
                        sum[k][m] += d[(j + k) * COLUMNS + c] * h[(i + m) * COLUMNS + c];
            for (int k = 0; k < GRAD_ROWS; k++) *(Unaligned*)(gradient + (j + k) * WIDTH + i) += fold(sum[k]);
        }
}
