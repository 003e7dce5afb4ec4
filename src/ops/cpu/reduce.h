/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h — reductions over a row in a fixed order (private to src/ops/cpu; no include
 * guard: bodies include it once per type).
 *
 * Element c is added to lane c % LANES; the lanes are then added pairwise by halves.
 * The order depends on the length only, and has enough lanes for the vectors of every
 * level. */

static inline A FN(fold)(A lane[LANES])
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

/* result = sum over c in [0, n) of `term`, an expression in c. */
#ifndef PT_ROW_SUM
#define PT_ROW_SUM(result, n, term)                                                    \
    do {                                                                               \
        A lane_[LANES] = {0};                                                          \
        int64_t whole_ = (n) - (n) % LANES;                                            \
        for (int64_t first_ = 0; first_ < whole_; first_ += LANES)                     \
            for (int64_t l_ = 0; l_ < LANES; l_++) {                                   \
                int64_t c = first_ + l_;                                               \
                lane_[l_] += (term);                                                   \
            }                                                                          \
        for (int64_t c = whole_; c < (n); c++)                                         \
            lane_[c - whole_] += (term);                                               \
        (result) = FN(fold)(lane_);                                                    \
    } while (0)
#endif
