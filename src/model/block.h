/* block.h — what a model is made of (private to src/model).
 *
 * A block (embedding, attention, ffn, head) lists the tensors it works with and says
 * for each who reads it later; model.c decides where it lives, so recompute and the
 * split of backward into B and W are no business of the blocks. A block's functions
 * find all their tensors bound in the call.
 *
 *   forward          reads its input, writes y and what is kept
 *   remake           writes the CHEAP tensors again, the same bits
 *   backward_input   turns dy, the gradient of the output, into the input's in place
 *   backward_weight  adds to the gradients of the parameters
 *
 * Where a tensor lives, by what it is kept for:
 *
 *              recompute none   selective   full, every:K     evaluation only
 *   INPUT      slot, B part     B part      B part if first   stream, two in turn
 *                                           of a group, else
 *                                           group
 *   B          B part           B part      group             scratch
 *   W          W part           W part      group             scratch
 *   CHEAP      W part           scratch     group             scratch
 *   GRADIENT   scratch          scratch     scratch           -
 *   RESULT     B part           B part      B part            scratch
 *   PASSED     stream           stream      stream            stream
 *   NOTHING    scratch          scratch     scratch           scratch
 *
 * and when a W may come later than its B, W, CHEAP and GRADIENT tensors always live
 * in the W part (held from F on, so that selective saves nothing then). The group's
 * buffers serve all groups of layers and all micro-batches; scratch serves all
 * blocks. */
#ifndef PT_MODEL_BLOCK_H
#define PT_MODEL_BLOCK_H

#include "penta/model/model.h"

typedef struct pt_block pt_block_t;
typedef struct pt_call pt_call_t;

typedef enum pt_keep {
    PT_KEEP_INPUT,    /* the output of the block before */
    PT_KEEP_B,        /* forward for backward_input (and for remaking) */
    PT_KEEP_W,        /* forward for backward_weight, and backward_input too */
    PT_KEEP_CHEAP,    /* forward for backward_weight only; remade at little cost */
    PT_KEEP_GRADIENT, /* backward_input for backward_weight */
    PT_KEEP_RESULT,   /* forward for backward_input, never computed again */
    PT_KEEP_PASSED,   /* the output of the block before, for forward only */
    PT_KEEP_NOTHING   /* within one function */
} pt_keep_t;

typedef enum pt_region {
    PT_REGION_SLOT_B,
    PT_REGION_SLOT_W,
    PT_REGION_GROUP,
    PT_REGION_STREAM,
    PT_REGION_SCRATCH,
    PT_REGIONS
} pt_region_t;

enum { PT_BLOCK_TENSORS = 20, PT_TENSOR_INPUT = 0 };

typedef struct pt_planned {
    pt_tensor_t shape; /* ndim 0: this block has none */
    pt_keep_t keep;
    bool by_rows; /* dimension 0 is the rows of the micro-batch */
    pt_region_t region;
    int64_t offset; /* bytes from the start of the region */
} pt_planned_t;

typedef struct pt_block_ops {
    const char *name; /* where's site */
    void (*plan)(const pt_model_t *model, pt_block_t *block);
    pt_status_t (*forward)(pt_call_t *call);
    pt_status_t (*remake)(pt_call_t *call);         /* NULL: has nothing cheap */
    pt_status_t (*backward_input)(pt_call_t *call); /* NULL, both: forward did it */
    pt_status_t (*backward_weight)(pt_call_t *call);
} pt_block_ops_t;

extern const pt_block_ops_t pt_embedding_block, pt_attention_block, pt_ffn_block,
    pt_head_block;

struct pt_block {
    const pt_block_ops_t *ops;
    int layer, unit;          /* layer -1: outside the layers */
    int group;                /* of layers computed again together; -1: never again */
    int param[PT_ROLE_COUNT]; /* index in the table, -1: the model has none */
    pt_planned_t tensor[PT_BLOCK_TENSORS];
};

/* A region holds one set of tensors, or one for each slot. */
typedef struct pt_region_place {
    int64_t bytes; /* of one set */
    char *base;    /* NULL while planning */
} pt_region_place_t;

struct pt_model {
    const pt_arch_t *arch;
    const pt_param_table_t *table;
    pt_units_t *units;
    const pt_mesh_t *mesh;
    pt_device_t *device;
    pt_engine_t *engine;
    pt_model_options_t options;
    pt_where_t *where, nowhere;
    int64_t rows;
    int blocks;
    pt_block_t *block; /* the one chunk */
    pt_region_place_t region[PT_REGIONS];
    pt_tensor_t cos, sin; /* A, [sequence, R/2]; absent: learned positions */
    void *op_workspace;   /* scratch of the ops */
    /* [layers, cached sequences, places, K·D], as attention sees them; absent: none */
    pt_tensor_t key_cache, value_cache;
    pt_tensor_t cache_place; /* int32 [places]: 0, 1, … */
    pt_tensor_t accumulator; /* of the loss */
    pt_tensor_t tied_grad;   /* of a tied head; empty between steps */
};

/* One function of one block on one micro-batch. */
struct pt_call {
    pt_model_t *model;
    const pt_block_t *block;
    const pt_batch_view_t *batch;
    const pt_decode_t *decode; /* NULL: the batch is all that attention sees */
    pt_stream_t *stream;
    int64_t rows;
    bool last_weight; /* backward_weight: the step's last of this chunk */
    pt_tensor_t
        y; /* forward: [n,C]; absent: not wanted (the end of what is computed again) */
    pt_tensor_t dy; /* backward: [n,C] */
    pt_tensor_t t[PT_BLOCK_TENSORS];
};

/* ---- planning: activations.c ---- */

/* A tensor of a block: [rows, cols] in T, [rows] (cols 0) or [rows, cols] in A,
 * [count] in T, [count] in the type of gradients. */
void pt_block_rows(const pt_model_t *model, pt_block_t *block, int index,
                   pt_keep_t keep, int64_t cols);
void pt_block_stats(const pt_model_t *model, pt_block_t *block, int index,
                    pt_keep_t keep, int64_t cols);
void pt_block_vector(const pt_model_t *model, pt_block_t *block, int index,
                     pt_keep_t keep, int64_t count);
void pt_block_gradient(const pt_model_t *model, pt_block_t *block, int index,
                       pt_keep_t keep, int64_t count);
/* Regions and offsets of all blocks. Fails: MEMORY on overflow. */
pt_status_t pt_model_plan_memory(pt_model_t *model);
pt_status_t pt_model_take_memory(pt_model_t *model, pt_arena_t *activations,
                                 pt_arena_t *workspace);
/* A tensor of `block` for a micro-batch of `rows` with the slots of `action`. */
pt_tensor_t pt_model_bind(const pt_model_t *model, const pt_block_t *block, int index,
                          const pt_action_t *action, int64_t rows);

/* ---- what blocks share: linear.c, norm.c ---- */

/* Weight or gradient of a parameter of this block; absent when the model has none. */
pt_tensor_t pt_call_weight(const pt_call_t *call, pt_role_t role);
pt_tensor_t pt_call_grad(const pt_call_t *call, pt_role_t role);
pt_dropout_t pt_call_dropout(const pt_call_t *call, pt_dropout_site_t site);

/* y[n,out] = x[n,in]·Wᵀ + bias; dx = dy·W; dW (+=) dyᵀ·x, dbias (+=) column sums.
 * Cut into calls of a fixed size that depends on the shapes only (a GEMM's bits
 * depend on its cut); communication makes progress between them. */
pt_status_t pt_linear_fwd(const pt_call_t *call, pt_tensor_t x, pt_tensor_t weight,
                          pt_tensor_t bias, pt_tensor_t y);
pt_status_t pt_linear_bwd_input(const pt_call_t *call, pt_tensor_t dy,
                                pt_tensor_t weight, pt_tensor_t dx);
pt_status_t pt_linear_bwd_weight(const pt_call_t *call, pt_tensor_t dy, pt_tensor_t x,
                                 pt_tensor_t dweight, pt_tensor_t dbias);

/* A norm at work. dweight, dbias of the input pass take this micro-batch's part
 * alone, overwritten; pt_norm_bwd_weight adds it to the gradient, so that B and W
 * may be far apart. */
typedef struct pt_norm_call {
    pt_norm_t kind;
    pt_role_t weight, bias; /* bias PT_ROLE_COUNT: none */
    pt_tensor_t x, y, mean, rstd;
    pt_tensor_t dy, dx, dweight, dbias;
    bool accumulate; /* dx */
} pt_norm_call_t;
pt_status_t pt_norm_forward(const pt_call_t *call, const pt_norm_call_t *norm);
pt_status_t pt_norm_backward_input(const pt_call_t *call, const pt_norm_call_t *norm);
pt_status_t pt_norm_backward_weight(const pt_call_t *call, const pt_norm_call_t *norm);

/* head.c: logits (type A) of rows [first_row, …) of the bound head. */
pt_status_t pt_head_logits(pt_call_t *call, int64_t first_row, pt_tensor_t logits);
/* The gradient of the head's input, which backward hands on. */
pt_tensor_t pt_head_gradient(const pt_model_t *model, const pt_action_t *action,
                             int64_t rows);

/* cache.c: keys and values of the places so far */
pt_status_t pt_cache_layout(pt_model_t *model, pt_arena_t *activations);
pt_status_t pt_cache_prepare(pt_model_t *model, pt_stream_t *stream);
/* Attention of the rows of the batch to all their sequences have in the cache, which they join first. */
pt_status_t pt_cache_attend(const pt_call_t *call, const pt_op_attention_fwd_t *rows);

/* rotary.c */
int64_t pt_rotary_columns(const pt_arch_t *arch); /* R; 0: none */
pt_status_t pt_rotary_tables(pt_model_t *model, pt_stream_t *stream);

#endif
