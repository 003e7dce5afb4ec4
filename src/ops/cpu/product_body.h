/* SPDX-License-Identifier: Apache-2.0 */
/* product_body.h — products of small blocks; see kernel.h; no include guard.
 *
 * c[i,j] = (+=) sum over p of a[i,p]·b[p,j]. Each element is one chain of multiply-adds
 * in ascending p, starting from c (or 0). Its bits depend neither on the size of the
 * block nor on its position in the block, which no BLAS promises. a has any two
 * strides; rows of b and c are contiguous. */

typedef struct FN(product) {
    int64_t rows, cols, depth;
    const A *a;
    int64_t a_row, a_col;
    const A *b;
    int64_t b_row;
    A *c;
    int64_t c_row;
    bool accumulate;
} FN(product_t);

#ifndef PT_TILE
#define PT_TILE 6 /* rows of c in registers, two vectors each */
#endif

/* Computes rows [i, i + count), columns [j, j + two vectors). */
static inline __attribute__((always_inline)) void FN(product_tile)(
    const FN(product_t) * x, int64_t i, int64_t j, int count)
{
    enum { WIDTH = PT_VECTOR_BYTES / sizeof(A) };
    typedef FN(pt_vector) vector;
    typedef FN(pt_unaligned) unaligned;
    const A *a = x->a + i * x->a_row, *b = x->b + j;
    A *c = x->c + i * x->c_row + j;
    int64_t a_row = x->a_row, a_col = x->a_col, b_row = x->b_row;
    vector sum[PT_TILE][2];
#pragma GCC unroll 8
    for (int r = 0; r < count; r++)
        for (int v = 0; v < 2; v++)
            sum[r][v] = x->accumulate
                            ? (vector) * (unaligned *)(c + r * x->c_row + v * WIDTH)
                            : (vector){0};
    for (int64_t p = 0; p < x->depth; p++) {
        vector low = *(const unaligned *)(b + p * b_row);
        vector high = *(const unaligned *)(b + p * b_row + WIDTH);
#pragma GCC unroll 8
        for (int r = 0; r < count; r++) {
            vector factor = a[r * a_row + p * a_col] - (vector){0};
            sum[r][0] = FN(pt_vector_fma)(factor, low, sum[r][0]);
            sum[r][1] = FN(pt_vector_fma)(factor, high, sum[r][1]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < count; r++)
        for (int v = 0; v < 2; v++)
            *(unaligned *)(c + r * x->c_row + v * WIDTH) = sum[r][v];
}

static void FN(product)(const FN(product_t) * x)
{
    enum { STRIP = 2 * PT_VECTOR_BYTES / sizeof(A) };
    int64_t whole = x->cols - x->cols % STRIP;
    for (int64_t j = 0; j < whole; j += STRIP) {
        int64_t i = 0;
        for (; i + PT_TILE <= x->rows; i += PT_TILE)
            FN(product_tile)(x, i, j, PT_TILE);
        for (; i + 2 <= x->rows; i += 2)
            FN(product_tile)(x, i, j, 2);
        if (i < x->rows)
            FN(product_tile)(x, i, j, 1);
    }
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = whole; j < x->cols; j++) {
            A sum = x->accumulate ? x->c[i * x->c_row + j] : 0;
            for (int64_t p = 0; p < x->depth; p++)
                sum = FN(pt_fma)(x->a[i * x->a_row + p * x->a_col],
                                 x->b[p * x->b_row + j], sum);
            x->c[i * x->c_row + j] = sum;
        }
}
