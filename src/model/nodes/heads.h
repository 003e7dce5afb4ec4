/* heads.h — q | k | v side by side in the columns of a tensor, seen head by head (private to src/model/nodes). */
#ifndef PT_MODEL_HEADS_H
#define PT_MODEL_HEADS_H

#include "src/model/block.h"

typedef struct pt_heads {
    pt_tensor_t q, k, v; /* [n,H,D], [n,K,D], [n,K,D]; v absent where x has none */
} pt_heads_t;

static inline pt_tensor_t pt_heads_view(pt_tensor_t x, int64_t first, int64_t heads,
                                        int64_t width)
{
    return pt_tensor_split_last(pt_tensor_slice(x, 1, first * width, heads * width),
                                heads);
}

/* x: [n,(H+2K)·D] or [n,(H+K)·D]; absent stays absent. H and K are those of this rank. */
static inline pt_heads_t pt_heads_of(const pt_call_t *call, pt_tensor_t x)
{
    int64_t h = call->model->heads, k = call->model->kv_heads;
    int64_t d = call->model->arch->head_dim;
    pt_heads_t heads = {0};

    if (x.ndim == 0)
        return heads;
    heads.q = pt_heads_view(x, 0, h, d);
    heads.k = pt_heads_view(x, h, k, d);
    if (x.shape[1] > (h + k) * d)
        heads.v = pt_heads_view(x, h + k, k, d);
    return heads;
}

#endif
