/* The steps of every op: check, plan its scratch, count, run. */
#include "penta/clock.h"
#include "src/ops/backend.h"
#include "src/ops/attention.h"

/* Names used by the cost expressions of ops.def. */
#define SZ(t) ((int64_t)pt_dtype_size((t).dtype))

const char *pt_op_name(pt_op_id_t op)
{
    static const char *const names[] = {
#define PT_OP(name, dtypes, flops, bytes, workspace) #name,
#include "src/ops/ops.def"
#undef PT_OP
    };
    return (unsigned)op < PT_OP_COUNT ? names[op] : "unknown";
}

int64_t pt_attention_flops(const pt_attention_shape_t *shape, const pt_tensor_t *q,
                           const pt_tensor_t *v, bool forward)
{
    int64_t sequences = shape->sequences > 0 ? shape->sequences : 1;
    /* Twice the pairs of query and key, over all heads. */
    int64_t pairs2 = q->shape[0] / sequences * v->shape[0] * q->shape[1];
    int64_t qk = q->shape[2], pv = v->shape[2];
    return forward ? pairs2 * (qk + pv) : pairs2 * (3 * qk + 2 * pv);
}

/* Of the widest user, the CPU: one part for each thread. */
int64_t pt_attention_workspace(const pt_device_t *device, pt_dtype_t dtype,
                               int64_t qk_width, int64_t v_width)
{
    int64_t wide = qk_width > v_width ? qk_width : v_width;
    int64_t count = pt_attention_scratch_count(wide) * device->threads;
    return count * (int64_t)pt_dtype_size(pt_dtype_accumulator(dtype));
}

static pt_status_t need(pt_device_t *device, const pt_stream_t *stream, pt_op_id_t op,
                        int64_t bytes)
{
    const pt_workspace_t *given = (const void *)stream;
    if (bytes > device->workspace_peak)
        device->workspace_peak = bytes;
    if (bytes == 0 || device->dry)
        return PT_OK;
    PT_CHECK(bytes <= given->bytes, PT_INTERNAL,
             "%s: needs %lld bytes of workspace, its stream was given %lld",
             pt_op_name(op), (long long)bytes, (long long)given->bytes);
    return PT_OK;
}

static void count(pt_op_count_t *count, int64_t flops, int64_t bytes)
{
    count->calls++;
    count->flops += flops;
    count->bytes += bytes;
}

#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    pt_status_t pt_op_##name(struct pt_device *device, struct pt_stream *stream,       \
                             const pt_op_##name##_t *a)                                \
    {                                                                                  \
        PT_TRY(pt_check_##name(a, dtypes));                                            \
        PT_TRY(need(device, stream, PT_OP_##name, workspace));                         \
        count(&device->counts[PT_OP_##name], flops, bytes);                            \
        if (device->dry)                                                               \
            return PT_OK;                                                              \
        double start = pt_clock_sec();                                                 \
        PT_TRY(device->kernels->name(stream, a));                                      \
        device->counts[PT_OP_##name].sec += pt_clock_sec() - start;                    \
        return PT_OK;                                                                  \
    }
#include "src/ops/ops.def"
#undef PT_OP
