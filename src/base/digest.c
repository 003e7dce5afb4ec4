/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/digest.h"

#include <string.h>

/* Bits of an element as an unsigned number. `size` is a constant in each inlined
 * copy. */
static inline uint64_t digest_bits_of(const char *element, size_t size)
{
    uint64_t u64;
    uint32_t u32;
    uint16_t u16;

    switch (size) {
    case 8: memcpy(&u64, element, 8); return u64;
    case 4: memcpy(&u32, element, 4); return u32;
    case 2: memcpy(&u16, element, 2); return u16;
    default: return (unsigned char)*element;
    }
}

static inline __attribute__((always_inline)) uint64_t row_of(uint64_t id,
                                                             const char *data,
                                                             size_t size, int64_t cols,
                                                             int64_t first)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < cols; i++)
        sum += pt_digest_element(id, first + i,
                                 digest_bits_of(data + i * (int64_t)size, size));
    return sum;
}

uint64_t pt_digest_block(uint64_t id, pt_dtype_t dtype, const void *data, int64_t rows,
                         int64_t cols, int64_t first, int64_t pitch)
{
    size_t size = pt_dtype_size(dtype);
    const char *row = data;
    uint64_t sum = 0;

    for (int64_t r = 0; r < rows; r++, row += cols * (int64_t)size, first += pitch)
        switch (size) {
        case 8: sum += row_of(id, row, 8, cols, first); break;
        case 4: sum += row_of(id, row, 4, cols, first); break;
        case 2: sum += row_of(id, row, 2, cols, first); break;
        default: sum += row_of(id, row, 1, cols, first); break;
        }
    return sum;
}
