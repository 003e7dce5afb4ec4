/* SPDX-License-Identifier: Apache-2.0 */
/* param.h — a row of the parameter table (layer: parallel, which uses the rows; src/model/arch.c creates them).
 *
 * The parameter table is the only place that knows the tensors of a model. Allocation, initialisation, gradient
 * units, checkpoint hyperslabs, exported names, counts and plans are derived from it. A *parameter* is a matrix or
 * vector as the kernels use it (q|k|v fused); its *parts* are the named global tensors of the checkpoint ([out, in],
 * unfused). Plain data. */
#ifndef PENTA_PARAM_H
#define PENTA_PARAM_H

#include "penta/parallel/cut.h"
#include "penta/parallel/shard.h"

typedef enum pt_role {
    PT_ROLE_NONE,
    PT_ROLE_TOKEN_EMBEDDING,
    PT_ROLE_POSITION_EMBEDDING,
    PT_ROLE_ATTENTION_NORM,
    PT_ROLE_ATTENTION_NORM_BIAS,
    PT_ROLE_QKV,
    PT_ROLE_QKV_BIAS,
    PT_ROLE_Q_NORM,
    PT_ROLE_K_NORM,
    PT_ROLE_ATTENTION_OUT,
    PT_ROLE_ATTENTION_OUT_BIAS,
    PT_ROLE_FFN_NORM,
    PT_ROLE_FFN_NORM_BIAS,
    PT_ROLE_FFN_IN, /* gate|up, or the one matrix of GELU */
    PT_ROLE_FFN_IN_BIAS,
    PT_ROLE_FFN_OUT,
    PT_ROLE_FFN_OUT_BIAS,
    PT_ROLE_FINAL_NORM,
    PT_ROLE_FINAL_NORM_BIAS,
    PT_ROLE_HEAD, /* absent when tied */
    PT_ROLE_COUNT
} pt_role_t;

typedef enum pt_init_kind {
    PT_INIT_NORMAL,
    PT_INIT_ONES,
    PT_INIT_ZEROS
} pt_init_kind_t;

enum { PT_MAX_PARTS = 3, PT_NAME_SIZE = 64 };

/* A named global tensor: rows [first_row, first_row + rows) of its parameter; rows are dimension 0 of
 * vectors and matrices, dimension 1 of expert stacks [E, out, in]. */
typedef struct pt_part {
    char name[PT_NAME_SIZE]; /* "layers.3.attention.q.weight" */
    uint64_t id;             /* pt_name_id(name): initialisation and digest */
    int64_t first_row;
    int ndim;
    int64_t shape[PT_HYPERSLAB_DIMS];
} pt_part_t;

typedef struct pt_param {
    pt_role_t role;
    int layer; /* -1: outside the layers */
    int ndim;
    int64_t shape[PT_HYPERSLAB_DIMS]; /* global, parts stacked along rows */
    pt_init_kind_t init;
    double init_std;
    bool weight_decay;
    pt_shard_rule_t shard;        /* over the tensor (experts: expert tensor) axis */
    pt_shard_rule_t expert_shard; /* experts: dimension 0 over the expert axis */
    pt_placement_t
        grad; /* what backward leaves on the shard's axis when not sharded: PT_PARTIAL_SUM for norms
                       * of heads, and for norms of rows under sequence parallelism */
    bool expert; /* replicated over the expert groups instead of the dense ones */
    int position, stage; /* which hold it, by the pipeline cut */
    int unit; /* embedding 0, layer l: 1 + l, head: 1 + L; experts get their own */
    int parts;
    pt_part_t part[PT_MAX_PARTS];
} pt_param_t;

typedef struct pt_param_table {
    int count, units;
    pt_param_t *params; /* ascending unit; owned */
    pt_cut_t cut;       /* over stages; owned */
} pt_param_table_t;

#endif
