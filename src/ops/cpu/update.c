/* The optimizer's update, and the digest of a state. */
#include "penta/digest.h"
#include "src/ops/cpu/kernel.h"

#define PT_BODY "src/ops/cpu/update_body.h"
#include "src/ops/cpu/each_type.h"

PT_DISPATCH(adamw, weight)

/* The bits of floating-point elements. */
typedef uint64_t __attribute__((may_alias)) bits64_t;
typedef uint32_t __attribute__((may_alias)) bits32_t;

pt_status_t PT_KERNEL(digest)(struct pt_stream *stream, const pt_op_digest_t *a)
{
    int64_t rows = a->x.shape[0], cols = a->x.shape[1];
    bool wide = a->x.dtype == PT_F64;
    uint64_t total = 0;
#pragma omp parallel for schedule(static) num_threads(stream->threads)                     \
    if (stream->threads > 1) reduction(+ : total)
    for (int64_t r = 0; r < rows; r++) {
        int64_t index = a->first + r * a->pitch;
        uint64_t sum = 0;
        if (wide) {
            const bits64_t *bits = PT_ROW(const bits64_t, a->x, r);
            for (int64_t c = 0; c < cols; c++)
                sum += pt_digest_element(a->id, index + c, bits[c]);
        } else {
            const bits32_t *bits = PT_ROW(const bits32_t, a->x, r);
            for (int64_t c = 0; c < cols; c++)
                sum += pt_digest_element(a->id, index + c, bits[c]);
        }
        total += sum;
    }
    *(uint64_t *)a->accumulator.data += total;
    return PT_OK;
}
