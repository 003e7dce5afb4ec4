/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/digest.h"

#include <string.h>

enum { ROWS = 6, COLS = 10, FIRST = 1000, PITCH = 37 };

static unsigned char data[ROWS * COLS * 8];

/* The definition, byte by byte. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t defined(uint64_t id, size_t size)
{
    uint64_t sum = 0;

    for (uint64_t r = 0; r < ROWS; r++)
        for (uint64_t c = 0; c < COLS; c++) {
            const unsigned char *element = data + (r * COLS + c) * size;
            uint64_t bits = 0;
            for (size_t b = 0; b < size; b++)
                bits += (uint64_t)element[b] << 8 * b;
            sum += mix(mix(id + FIRST + r * PITCH + c) ^ bits);
        }
    return sum;
}

static int one_bit_matters(uint64_t id, pt_dtype_t dtype, uint64_t whole)
{
    size_t size = pt_dtype_size(dtype);
    int good = 1;

    for (size_t bit = 0; bit < ROWS * COLS * size * 8; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        good =
            good && pt_digest_block(id, dtype, data, ROWS, COLS, FIRST, PITCH) != whole;
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    return good;
}

static void test_type(uint64_t id, pt_dtype_t dtype)
{
    size_t size = pt_dtype_size(dtype);
    uint64_t whole = pt_digest_block(id, dtype, data, ROWS, COLS, FIRST, PITCH);
    uint64_t parts = 0, cells = 0;
    const char *name = pt_dtype_name(dtype);

    tap_ok(whole == defined(id, size), "%s: as defined", name);
    parts = pt_digest_block(id, dtype, data, 2, COLS, FIRST, PITCH) +
            pt_digest_block(id, dtype, data + 2 * COLS * size, ROWS - 2, COLS,
                            FIRST + 2 * PITCH, PITCH);
    tap_ok(parts == whole, "%s: rows in two parts", name);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            cells += pt_digest_block(id, dtype, data + (size_t)(r * COLS + c) * size, 1,
                                     1, FIRST + r * PITCH + c, 1);
    tap_ok(cells == whole, "%s: one by one", name);
    tap_ok(one_bit_matters(id, dtype, whole), "%s: any flipped bit shows", name);
    tap_ok(pt_digest_block(id + 1, dtype, data, ROWS, COLS, FIRST, PITCH) != whole &&
               pt_digest_block(id, dtype, data, ROWS, COLS, FIRST + 1, PITCH) != whole,
           "%s: id and place matter", name);
}

int main(void)
{
    uint64_t id = pt_name_id("layers.3.ffn.w1");

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)mix(i);
    for (int dtype = 0; dtype < PT_DTYPE_COUNT; dtype++)
        test_type(id, (pt_dtype_t)dtype);
    tap_ok(pt_digest_block(id, PT_F32, data, 0, COLS, 0, COLS) == 0 &&
               pt_digest_block(id, PT_F32, data, ROWS, 0, 0, 0) == 0,
           "nothing sums to 0");
    return tap_done();
}
