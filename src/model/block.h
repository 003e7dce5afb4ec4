/* SPDX-License-Identifier: Apache-2.0 */
/* block.h — the parts of a model (private to src/model).
 *
 * A model is a list of blocks, each with a program (program.h). region.c assigns memory to the tensors of a block;
 * pass.c runs the programs, and only it knows recompute, brackets around weights and the split of the backward
 * pass. The memory of a tensor follows from the last pass that reads it:
 *
 *                          recompute none   selective   full, every:K     evaluation only
 *   x of the block         slot, B part     B part      B part if first   stream, two in turn
 *                                                       of a group, else
 *                                                       group
 *   forward -> input       B part           B part      group             scratch
 *   forward -> weight      W part           W part      group             scratch
 *   the same, recomputed   W part           scratch     group             scratch
 *   input -> weight        scratch          scratch     scratch           -
 *   within one pass        scratch          scratch     scratch           scratch
 *   x, read in forward     stream           stream      stream            stream
 *
 * If a weight pass may run later than its input pass, the tensors it reads are always in the W part, which is held
 * from forward on; selective recompute then saves nothing. Blocks of a group are recomputed together. All groups
 * of layers and all micro-batches share the buffers of a group, and all blocks share scratch. */
#ifndef PT_MODEL_BLOCK_H
#define PT_MODEL_BLOCK_H

#include "penta/model/model.h"
#include "src/model/program.h"

typedef enum pt_region {
    PT_REGION_SLOT_B,
    PT_REGION_SLOT_W,
    PT_REGION_GROUP,
    PT_REGION_STREAM,
    PT_REGION_SCRATCH,
    PT_REGIONS
} pt_region_t;

typedef struct pt_place {
    pt_region_t region;
    int64_t offset; /* bytes from the start of the region; -1: no memory of its own */
} pt_place_t;

typedef struct pt_block {
    const pt_program_t *program;
    int layer;                /* -1: outside the layers */
    int unit;                 /* of its parameters */
    int borrowed;             /* unit whose weights it only reads (a tied head); -1 */
    int chunk;                /* of the model */
    int group;                /* of layers recomputed together; -1: not recomputed */
    int param[PT_ROLE_COUNT]; /* index in the parameter table; -1: the model has none */
    pt_place_t *place;        /* [program->tensors] */
} pt_block_t;

/* A region holds one set of tensors, or one for each slot. */
typedef struct pt_region_place {
    int64_t bytes; /* of one set */
    char *base;    /* NULL while planning */
} pt_region_place_t;

/* The blocks at a position of the cut. A chunk has its own slots; all chunks share the other regions. */
typedef struct pt_chunk {
    int position, first, end; /* blocks [first, end) */
    pt_region_place_t slot[PT_REGION_SLOT_W + 1];
} pt_chunk_t;

typedef enum pt_block_kind {
    PT_BLOCK_EMBEDDING,
    PT_BLOCK_ATTENTION,
    PT_BLOCK_FFN,
    PT_BLOCK_HEAD,
    PT_BLOCK_KINDS
} pt_block_kind_t;

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
    pt_program_t *program[PT_BLOCK_KINDS];
    int blocks;
    pt_block_t *block;
    int chunks;
    pt_chunk_t *chunk;
    pt_region_place_t region[PT_REGIONS]; /* those that chunks share */
    pt_tensor_t cos, sin; /* A, [sequence, R/2]; absent: learned positions */
    void *op_workspace;   /* scratch of the ops */
    /* [layers, cached sequences, places, K·D], as attention sees them; absent: none */
    pt_tensor_t key_cache, value_cache;
    pt_tensor_t cache_place; /* int32 [places]: 0, 1, … */
    pt_tensor_t accumulator; /* of the loss */
    pt_tensor_t tied_grad;   /* of a tied head; empty between steps */
};

/* One pass of one block on one micro-batch. */
struct pt_call {
    pt_model_t *model;
    const pt_block_t *block;
    const pt_action_t *action;
    const pt_batch_view_t *batch;
    const pt_decode_t *decode; /* NULL: no cache, attention sees the batch only */
    pt_stream_t *stream;
    int64_t rows;
    bool last_weight; /* the last weight pass of this chunk in the step */
    bool again; /* forward is recomputed, from inputs that forward has left in place */
    pt_tensor_t x;  /* the input of the chunk, for its first block; otherwise absent */
    pt_tensor_t y;  /* forward: [n,C]; absent: not needed */
    pt_tensor_t dy; /* backward: [n,C] */
};

/* ---- region.c ---- */

/* Computes regions and offsets of all blocks. Fails: MEMORY on overflow. */
pt_status_t pt_model_plan_memory(pt_model_t *model);
pt_status_t pt_model_take_memory(pt_model_t *model, pt_arena_t *activations,
                                 pt_arena_t *workspace);
/* A tensor of a block for an action of `rows` rows. */
pt_tensor_t pt_model_bind(const pt_model_t *model, const pt_block_t *block, int tensor,
                          const pt_action_t *action, int64_t rows);

/* ---- access to tensors and parameters in a call: call.c ---- */

pt_tensor_t pt_call_tensor(const pt_call_t *call, int tensor);
/* An operand of a node; absent if the node has no such operand. */
pt_tensor_t pt_call_operand(const pt_call_t *call, const pt_node_t *node,
                            pt_operand_t operand);
/* Weight or gradient of a parameter of this block; absent when the model has none. */
pt_tensor_t pt_call_weight(const pt_call_t *call, pt_role_t role);
pt_tensor_t pt_call_grad(const pt_call_t *call, pt_role_t role);
pt_dropout_t pt_call_dropout(const pt_call_t *call, pt_dropout_site_t site);
/* x = 0. */
pt_status_t pt_call_clear(const pt_call_t *call, pt_tensor_t x);

/* ---- functions that nodes and the head share: nodes/ ---- */

/* y[n,out] = x[n,in]·Wᵀ; dx = dy·W; dW (+=) dyᵀ·x.
 * Each is divided into GEMM calls whose sizes depend on the shapes only, since the bits of a GEMM depend on its
 * division. Communication is progressed between the calls. */
pt_status_t pt_linear_forward(const pt_call_t *call, pt_tensor_t x, pt_tensor_t weight,
                              pt_tensor_t y);
pt_status_t pt_linear_input(const pt_call_t *call, pt_tensor_t dy, pt_tensor_t weight,
                            pt_tensor_t dx);
pt_status_t pt_linear_weight(const pt_call_t *call, pt_tensor_t dy, pt_tensor_t x,
                             pt_tensor_t dweight);
/* dbias (+=) column sums of dy; does nothing if the model has no such bias. */
pt_status_t pt_bias_weight(const pt_call_t *call, pt_tensor_t dy, pt_role_t bias);

/* Operands of a norm. The input pass overwrites dweight and dbias with the sums of this micro-batch; the weight pass
 * adds them to the gradients. */
typedef struct pt_norm_args {
    pt_norm_t kind;
    pt_role_t weight, bias; /* bias may be PT_ROLE_NONE */
    pt_tensor_t x, y, mean, rstd;
    pt_tensor_t dy, dx, dweight, dbias;
    bool accumulate; /* dx */
} pt_norm_args_t;
pt_status_t pt_norm_forward(const pt_call_t *call, const pt_norm_args_t *norm);
pt_status_t pt_norm_input(const pt_call_t *call, const pt_norm_args_t *norm);
pt_status_t pt_norm_weight(const pt_call_t *call, const pt_norm_args_t *norm);

/* ---- head.c, cache.c, rotary.c ---- */

/* Logits (type A) of rows [first_row, …) of the head's call. */
pt_status_t pt_head_logits(const pt_call_t *call, int64_t first_row, pt_tensor_t logits);
/* The gradient of the input of the head, which its backward pass returns. */
pt_tensor_t pt_head_gradient(const pt_model_t *model, const pt_block_t *block,
                             const pt_action_t *action, int64_t rows);

/* The cache of keys and values. */
pt_status_t pt_cache_layout(pt_model_t *model, pt_arena_t *activations);
pt_status_t pt_cache_prepare(pt_model_t *model, pt_stream_t *stream);
/* Appends keys and values of the batch to the cache, then computes attention over all that their sequences have there. */
pt_status_t pt_cache_attend(const pt_call_t *call, const pt_op_attention_fwd_t *rows);

int64_t pt_rotary_columns(const pt_arch_t *arch); /* R; 0: none */
pt_status_t pt_rotary_tables(pt_model_t *model, pt_stream_t *stream);

#endif
