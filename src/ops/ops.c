/* SPDX-License-Identifier: Apache-2.0 */
/* Calls an op: checks it, checks its workspace, counts it and runs its kernel. */
#include "penta/base/clock.h"
#include "src/ops/backend.h"
#include "src/ops/attention.h"
#include "src/ops/gemm.h"

/* Used by the cost expressions of ops.def. */
#define SZ(t)    ((int64_t)pt_dtype_size((t).dtype))
#define BYTES(t) (pt_tensor_count(&(t)) * SZ(t))

const char *pt_op_name(pt_op_id_t op)
{
    static const char *const names[] = {
#define PT_OP(name, dtypes, flops, bytes, workspace) #name,
#include "penta/ops/ops.def"
#undef PT_OP
    };
    return (unsigned)op < PT_OP_COUNT ? names[op] : "unknown";
}

int64_t pt_attention_flops(const pt_attention_shape_t *shape, const pt_tensor_t *q,
                           const pt_tensor_t *v, bool forward)
{
    int64_t sequences = shape->sequences > 0 ? shape->sequences : 1;
    /* Twice the number of pairs of query and key, over all heads. */
    int64_t pairs2 = q->shape[0] / sequences * v->shape[0] * q->shape[1];
    int64_t qk = q->shape[2], pv = v->shape[2];
    return forward ? pairs2 * (qk + pv) : pairs2 * (3 * qk + 2 * pv);
}

/* Keys of a sequence if dk and dv are summed in scratch; else 0. */
static int64_t ops_narrow_keys(const pt_op_attention_bwd_t *a)
{
    return a->dk.dtype != pt_dtype_accumulator(a->dk.dtype)
               ? a->k.shape[0] / a->shape.sequences
               : 0;
}

/* The CPU needs the most of all backends: one part for each thread. */
int64_t pt_attention_workspace(const pt_device_t *device, pt_dtype_t dtype,
                               int64_t keys, int64_t qk_width, int64_t v_width)
{
    pt_dtype_t wide_type = pt_dtype_accumulator(dtype);
    int64_t wide = qk_width > v_width ? qk_width : v_width;
    int64_t count = pt_attention_scratch_count(wide, dtype != wide_type, keys);
    return count * device->threads * (int64_t)pt_dtype_size(wide_type);
}

int64_t pt_gemm_workspace(pt_dtype_t dtype)
{
    int64_t blocks = dtype != pt_dtype_accumulator(dtype) ? 3 : 0;
    return blocks * PT_GEMM_BLOCK * PT_GEMM_BLOCK * (int64_t)sizeof(float);
}

/* The linked lists have an int32 for each row of the table and of dy. */
int64_t pt_embed_bwd_workspace(pt_dtype_t table, int64_t table_rows, int64_t rows)
{
    bool narrow = table != pt_dtype_accumulator(table);
    return narrow ? (table_rows + rows) * (int64_t)sizeof(int32_t) : 0;
}

static pt_status_t ops_need(pt_device_t *device, const pt_stream_t *stream,
                            pt_op_id_t op, int64_t bytes)
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

static void ops_count(pt_op_count_t *count, int64_t flops, int64_t bytes)
{
    count->calls++;
    count->flops += flops;
    count->bytes += bytes;
}

/* Runs instead of a kernel on a dry device: prepares products on the real device. */
static pt_status_t ops_rehearse(const pt_device_t *device, pt_op_id_t op,
                                const void *args)
{
    pt_device_t *real = device->rehearses;
    if (op != PT_OP_gemm || real == NULL || real->ops->prepare_gemm == NULL)
        return PT_OK;
    return real->ops->prepare_gemm(real, args);
}

#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    pt_status_t pt_op_##name(struct pt_device *device, struct pt_stream *stream,       \
                             const pt_op_##name##_t *a)                                \
    {                                                                                  \
        PT_TRY(pt_check_##name(a, dtypes));                                            \
        PT_TRY(ops_need(device, stream, PT_OP_##name, workspace));                     \
        ops_count(&device->counts[PT_OP_##name], flops, bytes);                        \
        if (device->dry)                                                               \
            return ops_rehearse(device, PT_OP_##name, a);                              \
        double start = pt_clock_sec();                                                 \
        PT_TRY(device->kernels->name(stream, a));                                      \
        device->counts[PT_OP_##name].sec += pt_clock_sec() - start;                    \
        return PT_OK;                                                                  \
    }
#include "penta/ops/ops.def"
#undef PT_OP
