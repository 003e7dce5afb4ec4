/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h — random words of dropout for a range of columns in a row (private to
 * src/ops/cpu). */
#ifndef PT_CPU_DRAW_H
#define PT_CPU_DRAW_H

#include "src/ops/dropout.h"

enum { PT_DRAW_CHUNK = 256 };

/* Values that all elements of a row share. */
typedef struct pt_draw {
    uint64_t key;
    uint32_t place, head, site_word, threshold;
} pt_draw_t;

static inline pt_draw_t pt_draw_of_row(const pt_dropout_t *dropout, int64_t row,
                                       int64_t head)
{
    pt_draw_t draw = {.head = (uint32_t)head};
    draw.key = pt_dropout_key(dropout, ((const int64_t *)dropout->sample.data)[row]);
    draw.place = (uint32_t)((const int32_t *)dropout->place.data)[row];
    draw.site_word = pt_dropout_site_word(dropout);
    draw.threshold = pt_dropout_threshold(dropout->p);
    return draw;
}

/* Computes the words of columns first_col … first_col + count - 1, count <=
 * PT_DRAW_CHUNK. Returns the address of the first of them in `words`. */
static inline const uint32_t *pt_draw_words(const pt_draw_t *draw, int64_t first_col,
                                            int64_t count,
                                            uint32_t words[PT_DRAW_CHUNK + 8])
{
    int64_t skip = first_col % 4, blocks = (skip + count + 3) / 4;
    uint32_t block = (uint32_t)(first_col / 4);
    for (int64_t b = 0; b < blocks; b++)
        pt_dropout_draw(draw->key, block + (uint32_t)b, draw->place, draw->head,
                        draw->site_word, words + 4 * b);
    return words + skip;
}

#endif
