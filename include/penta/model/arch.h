/* SPDX-License-Identifier: Apache-2.0 */
/* arch.h — a model's dimensions and switches, and its table of parameters (layer: model).
 * Pure; no data. What a table row means: param.h. */
#ifndef PENTA_ARCH_H
#define PENTA_ARCH_H

#include "penta/config/config.h"
#include "penta/ops/ops.h"
#include "penta/parallel/param.h"

typedef enum pt_positions { PT_POSITIONS_LEARNED, PT_POSITIONS_ROTARY } pt_positions_t;

/* A model with nothing left to default. */
typedef struct pt_arch {
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, max_positions;
    pt_norm_t norm;
    pt_activation_t activation;
    pt_positions_t positions;
    bool qk_norm, bias_qkv, bias_all, tied;
    double norm_eps, rotary_base, rotary_fraction, dropout, init_std;
    pt_dtype_t dtype; /* of weights and activations */
} pt_arch_t;

pt_status_t pt_arch_from_config(const pt_config_t *config,
                                pt_arch_t *out); /* Common: CONFIG */
/* Units of its parameter table (pt_param_t.unit). */
static inline int pt_arch_units(const pt_arch_t *arch)
{
    return (int)arch->layers + 2;
}

/* Takes `cut` over, also when it fails. Local. Fails: MEMORY; CONFIG (common) when sizes overflow int64.
 * Caller destroys. */
pt_status_t pt_param_table_create(const pt_arch_t *arch, pt_cut_t cut,
                                  pt_param_table_t *out);
void pt_param_table_destroy(pt_param_table_t *table);
/* Index of the parameter, -1 when the model has none. */
int pt_param_find(const pt_param_table_t *table, pt_role_t role, int layer);
int64_t pt_param_table_elements(const pt_param_table_t *table); /* exact parameter count */
/* Parameters without building a table: for 2^40-layer requests and plans. False on overflow. */
bool pt_arch_parameters(const pt_arch_t *arch, int64_t *out);

/* Hugging Face name of a part for the family this model belongs to, and how to read it: the part is
 * rows [first_row, first_row + rows) of the HF tensor, transposed first when `transposed`.
 * False when the family has no such tensor (tied head). */
typedef struct pt_hf_name {
    char name[96];
    bool transposed;
    int64_t first_row; /* of the (transposed) HF tensor */
    int64_t rows;      /* of the whole (transposed) HF tensor */
} pt_hf_name_t;
bool pt_arch_hf_name(const pt_arch_t *arch, const pt_param_t *param, int part,
                     pt_hf_name_t *out);

/* FLOPs of one token, forward and backward (6·matrix parameters + causal attention), for MFU. */
double pt_arch_flops_per_token(const pt_arch_t *arch, int64_t sequence);

#endif
