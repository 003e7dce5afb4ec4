/* SPDX-License-Identifier: Apache-2.0 */
/* The update of the optimizer, and the digest of a state. */
#include "penta/base/digest.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/update_body.h"
#include "src/ops/cpu/each_wide.h"

PT_DISPATCH_WIDE(adamw, weight)

#define DIGEST(type)                                                                   \
    do {                                                                               \
        const type *bits = PT_ROW(const type, a->x, r);                                \
        for (int64_t c = 0; c < cols; c++)                                             \
            sum += pt_digest_element(a->id, index + c, bits[c]);                       \
    } while (0)

pt_status_t PT_KERNEL(digest)(struct pt_stream *stream, const pt_op_digest_t *a)
{
    int64_t rows = a->x.shape[0], cols = a->x.shape[1];
    size_t size = pt_dtype_size(a->x.dtype);
    uint64_t total = 0;
#pragma omp parallel for schedule(static) num_threads(stream->threads)                     \
    if (stream->threads > 1) reduction(+ : total)
    for (int64_t r = 0; r < rows; r++) {
        int64_t index = a->first + r * a->pitch;
        uint64_t sum = 0;
        switch (size) {
        case 8: DIGEST(bits64_t); break;
        case 4: DIGEST(bits32_t); break;
        default: DIGEST(bits16_t);
        }
        total += sum;
    }
    *(uint64_t *)a->accumulator.data += total;
    return PT_OK;
}
