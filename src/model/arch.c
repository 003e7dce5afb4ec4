/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter table: every tensor of a model, in the order of its units. */
#include "penta/model/arch.h"
#include "penta/base/alloc.h"
#include "penta/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYER_PARAMS = PT_ROLE_COUNT };

/* What a row of the table is before it gets its layer. */
typedef struct spec {
    const char *const *names; /* of its parts */
    int parts, ndim;
    int64_t rows[PT_MAX_PARTS], cols; /* of each part */
    pt_init_kind_t init;
    bool residual; /* output of a residual branch */
    pt_shard_rule_t shard;
} spec_t;

pt_status_t pt_arch_from_config(const pt_config_t *config, pt_arch_t *out)
{
    static const pt_dtype_t type_of[] = {[PT_PRECISION_FP64] = PT_F64,
                                         [PT_PRECISION_FP32] = PT_F32,
                                         [PT_PRECISION_BF16] = PT_BF16,
                                         [PT_PRECISION_FP16] = PT_F16};
    int64_t parameters;

    *out = (pt_arch_t){
        .layers = config->model.layers,
        .hidden = config->model.hidden,
        .ffn = config->model.ffn,
        .heads = config->model.heads,
        .kv_heads = config->model.kv_heads,
        .head_dim = config->model.head_dim,
        .vocab = config->model.vocab,
        .max_positions = config->model.max_positions,
        .norm = config->model.norm == PT_CHOOSE_LAYER ? PT_NORM_LAYER : PT_NORM_RMS,
        .activation = config->model.activation == PT_CHOOSE_GELU ? PT_ACTIVATION_GELU
                                                                 : PT_ACTIVATION_SWIGLU,
        .positions = config->model.positions == PT_CHOOSE_LEARNED ? PT_POSITIONS_LEARNED
                                                                  : PT_POSITIONS_ROTARY,
        .qk_norm = config->model.qk_norm == PT_CHOOSE_YES,
        .bias_qkv = config->model.bias >= PT_CHOOSE_BIAS_QKV,
        .bias_all = config->model.bias == PT_CHOOSE_BIAS_ALL,
        .tied = config->model.tied == PT_CHOOSE_YES,
        .norm_eps = config->model.norm_eps,
        .rotary_base = config->model.rotary_base,
        .rotary_fraction = config->model.rotary_fraction,
        .dropout = config->model.dropout,
        .init_std = config->model.init_std,
        .dtype = type_of[config->train.precision],
    };
    PT_CHECK_COMMON(out->layers > 0 && out->hidden > 0 && out->ffn > 0 &&
                        out->heads > 0 && out->kv_heads > 0 && out->head_dim > 0 &&
                        out->vocab > 0 && out->max_positions > 0,
                    PT_CONFIG,
                    "the model has sizes of 0: name a preset, or give them all");
    PT_CHECK_COMMON(
        pt_arch_parameters(out, &parameters), PT_CONFIG,
        "the model's parameters are more than 64 bits can count; lower model.layers, "
        "model.hidden, model.ffn, model.heads or model.vocab");
    return PT_OK;
}

/* ---- Rows ---- */

static pt_shard_rule_t arch_cut(pt_shard_kind_t kind, int dim, int64_t granularity)
{
    return (pt_shard_rule_t){
        .kind = kind, .dim = dim, .axis = PT_AXIS_TENSOR, .granularity = granularity};
}

/* Rows of the vocabulary need not divide. */
static pt_shard_rule_t arch_cut_vocabulary(void)
{
    pt_shard_rule_t rule = arch_cut(PT_SHARD_PLAIN, 0, 1);

    rule.padded = true;
    return rule;
}

static spec_t arch_vector(const char *const *name, int64_t length, pt_init_kind_t init)
{
    return (spec_t){.names = name,
                    .parts = 1,
                    .ndim = 1,
                    .rows = {length},
                    .cols = 1,
                    .init = init,
                    .shard = arch_cut(PT_SHARD_NONE, 0, 1)};
}

static spec_t arch_matrix(const char *const *name, int64_t rows, int64_t cols,
                          pt_shard_rule_t shard)
{
    return (spec_t){.names = name,
                    .parts = 1,
                    .ndim = 2,
                    .rows = {rows},
                    .cols = cols,
                    .init = PT_INIT_NORMAL,
                    .shard = shard};
}

static bool arch_has_outer(const pt_arch_t *arch, pt_role_t role)
{
    switch (role) {
    case PT_ROLE_TOKEN_EMBEDDING:
    case PT_ROLE_FINAL_NORM: return true;
    case PT_ROLE_POSITION_EMBEDDING: return arch->positions == PT_POSITIONS_LEARNED;
    case PT_ROLE_FINAL_NORM_BIAS: return arch->norm == PT_NORM_LAYER;
    case PT_ROLE_HEAD: return !arch->tied;
    default: return false;
    }
}

static bool arch_has_in_layer(const pt_arch_t *arch, pt_role_t role)
{
    switch (role) {
    case PT_ROLE_ATTENTION_NORM_BIAS:
    case PT_ROLE_FFN_NORM_BIAS: return arch->norm == PT_NORM_LAYER;
    case PT_ROLE_QKV_BIAS: return arch->bias_qkv || arch->bias_all;
    case PT_ROLE_Q_NORM:
    case PT_ROLE_K_NORM: return arch->qk_norm;
    case PT_ROLE_ATTENTION_OUT_BIAS:
    case PT_ROLE_FFN_IN_BIAS:
    case PT_ROLE_FFN_OUT_BIAS: return arch->bias_all;
    case PT_ROLE_ATTENTION_NORM:
    case PT_ROLE_QKV:
    case PT_ROLE_ATTENTION_OUT:
    case PT_ROLE_FFN_NORM:
    case PT_ROLE_FFN_IN:
    case PT_ROLE_FFN_OUT: return true;
    default: return false;
    }
}

/* q|k|v are cut part by part between whole heads, so that a rank has the KV heads its query heads
 * use; the output projection is cut along the same columns. */
static spec_t arch_attention_spec(const pt_arch_t *arch, pt_role_t role)
{
    static const char *const qkv[] = {"attention.q.weight", "attention.k.weight",
                                      "attention.v.weight"};
    static const char *const bias[] = {"attention.q.bias", "attention.k.bias",
                                       "attention.v.bias"};
    static const char *const out[] = {"attention.out.weight"};
    int64_t q = arch->heads * arch->head_dim, kv = arch->kv_heads * arch->head_dim;
    spec_t spec;

    if (role == PT_ROLE_ATTENTION_OUT) {
        spec = arch_matrix(out, arch->hidden, q,
                           arch_cut(PT_SHARD_PLAIN, 1, arch->head_dim));
        spec.residual = true;
        return spec;
    }
    if (role == PT_ROLE_QKV)
        spec = arch_matrix(qkv, q, arch->hidden,
                           arch_cut(PT_SHARD_BLOCKED, 0, arch->head_dim));
    else {
        spec = arch_vector(bias, q, PT_INIT_ZEROS);
        spec.shard = arch_cut(PT_SHARD_BLOCKED, 0, arch->head_dim);
    }
    spec.parts = 3;
    spec.rows[1] = spec.rows[2] = kv;
    return spec;
}

static spec_t arch_ffn_spec(const pt_arch_t *arch, pt_role_t role)
{
    static const char *const gated[] = {"ffn.gate.weight", "ffn.up.weight"};
    static const char *const gated_bias[] = {"ffn.gate.bias", "ffn.up.bias"};
    static const char *const in[] = {"ffn.in.weight"}, *const in_bias[] = {
                                                           "ffn.in.bias"};
    static const char *const out[] = {"ffn.out.weight"};
    bool is_gated = arch->activation == PT_ACTIVATION_SWIGLU;
    spec_t spec;

    if (role == PT_ROLE_FFN_OUT) {
        spec =
            arch_matrix(out, arch->hidden, arch->ffn, arch_cut(PT_SHARD_PLAIN, 1, 1));
        spec.residual = true;
        return spec;
    }
    if (role == PT_ROLE_FFN_IN)
        spec = arch_matrix(is_gated ? gated : in, arch->ffn, arch->hidden,
                           arch_cut(PT_SHARD_BLOCKED, 0, 1));
    else {
        spec = arch_vector(is_gated ? gated_bias : in_bias, arch->ffn, PT_INIT_ZEROS);
        spec.shard = arch_cut(PT_SHARD_BLOCKED, 0, 1);
    }
    if (is_gated) {
        spec.parts = 2;
        spec.rows[1] = arch->ffn;
    }
    return spec;
}

static spec_t arch_vector_spec(const pt_arch_t *arch, pt_role_t role)
{
    static const char *const names[PT_ROLE_COUNT] = {
        [PT_ROLE_ATTENTION_NORM] = "attention.norm.weight",
        [PT_ROLE_ATTENTION_NORM_BIAS] = "attention.norm.bias",
        [PT_ROLE_Q_NORM] = "attention.q_norm.weight",
        [PT_ROLE_K_NORM] = "attention.k_norm.weight",
        [PT_ROLE_ATTENTION_OUT_BIAS] = "attention.out.bias",
        [PT_ROLE_FFN_NORM] = "ffn.norm.weight",
        [PT_ROLE_FFN_NORM_BIAS] = "ffn.norm.bias",
        [PT_ROLE_FFN_OUT_BIAS] = "ffn.out.bias",
        [PT_ROLE_FINAL_NORM] = "head.norm.weight",
        [PT_ROLE_FINAL_NORM_BIAS] = "head.norm.bias",
    };

    switch (role) {
    case PT_ROLE_Q_NORM:
    case PT_ROLE_K_NORM: return arch_vector(&names[role], arch->head_dim, PT_INIT_ONES);
    case PT_ROLE_ATTENTION_NORM:
    case PT_ROLE_FFN_NORM:
    case PT_ROLE_FINAL_NORM:
        return arch_vector(&names[role], arch->hidden, PT_INIT_ONES);
    default: return arch_vector(&names[role], arch->hidden, PT_INIT_ZEROS);
    }
}

static spec_t arch_spec_of(const pt_arch_t *arch, pt_role_t role)
{
    static const char *const token[] = {"embedding.token.weight"};
    static const char *const position[] = {"embedding.position.weight"};
    static const char *const head[] = {"head.weight"};

    switch (role) {
    case PT_ROLE_TOKEN_EMBEDDING:
        return arch_matrix(token, arch->vocab, arch->hidden, arch_cut_vocabulary());
    case PT_ROLE_POSITION_EMBEDDING:
        return arch_matrix(position, arch->max_positions, arch->hidden,
                           arch_cut(PT_SHARD_NONE, 0, 1));
    case PT_ROLE_HEAD:
        return arch_matrix(head, arch->vocab, arch->hidden, arch_cut_vocabulary());
    case PT_ROLE_QKV:
    case PT_ROLE_QKV_BIAS:
    case PT_ROLE_ATTENTION_OUT: return arch_attention_spec(arch, role);
    case PT_ROLE_FFN_IN:
    case PT_ROLE_FFN_IN_BIAS:
    case PT_ROLE_FFN_OUT: return arch_ffn_spec(arch, role);
    default: return arch_vector_spec(arch, role);
    }
}

/* ---- Counts ---- */

static bool arch_add_elements(const pt_arch_t *arch, pt_role_t role, int64_t *sum)
{
    spec_t spec = arch_spec_of(arch, role);
    int64_t elements;

    for (int i = 0; i < spec.parts; i++)
        if (__builtin_mul_overflow(spec.rows[i], spec.cols, &elements) ||
            __builtin_add_overflow(*sum, elements, sum))
            return false;
    return true;
}

/* Before rows are made: their row counts must themselves be sound, with room for 8 bytes an element
 * and for padding. */
static bool arch_sizes_are_sound(const pt_arch_t *arch)
{
    const int64_t size[] = {arch->layers, arch->hidden,       arch->ffn,
                            arch->heads,  arch->kv_heads,     arch->head_dim,
                            arch->vocab,  arch->max_positions};
    int64_t width;

    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++)
        if (size[i] < 0)
            return false;
    return !__builtin_mul_overflow(arch->heads, arch->head_dim, &width) &&
           !__builtin_mul_overflow(arch->kv_heads, arch->head_dim, &width);
}

bool pt_arch_parameters(const pt_arch_t *arch, int64_t *out)
{
    int64_t outer = 0, layer = 0, all;

    if (!arch_sizes_are_sound(arch))
        return false;
    for (int role = 0; role < PT_ROLE_COUNT; role++) {
        if (arch_has_outer(arch, role) && !arch_add_elements(arch, role, &outer))
            return false;
        if (arch_has_in_layer(arch, role) && !arch_add_elements(arch, role, &layer))
            return false;
    }
    if (__builtin_mul_overflow(layer, arch->layers, &all) ||
        __builtin_add_overflow(all, outer, &all) || all > INT64_MAX / 16)
        return false;
    *out = all;
    return true;
}

/* ---- The table ---- */

/* Ranks that share the heads see only their own ones through the norms of heads. */
static bool arch_leaves_parts(pt_role_t role)
{
    return role == PT_ROLE_Q_NORM || role == PT_ROLE_K_NORM;
}

static void arch_fill_param(const pt_arch_t *arch, pt_role_t role, int layer, int unit,
                            pt_param_t *out)
{
    spec_t spec = arch_spec_of(arch, role);
    int64_t rows = 0;

    *out =
        (pt_param_t){.role = role,
                     .layer = layer,
                     .ndim = spec.ndim,
                     .init = spec.init,
                     .weight_decay = spec.ndim == 2,
                     .shard = spec.shard,
                     .grad = arch_leaves_parts(role) ? PT_PARTIAL_SUM : PT_REPLICATED,
                     .unit = unit,
                     .parts = spec.parts};
    if (spec.init ==
        PT_INIT_NORMAL) /* Radford et al. 2019, section 2.3: 1/sqrt(residual branches) */
        out->init_std = spec.residual
                            ? arch->init_std / sqrt(2.0 * (double)arch->layers)
                            : arch->init_std;
    for (int i = 0; i < spec.parts; i++) {
        pt_part_t *part = &out->part[i];

        if (layer >= 0)
            snprintf(part->name, sizeof part->name, "layers.%d.%s", layer,
                     spec.names[i]);
        else
            snprintf(part->name, sizeof part->name, "%s", spec.names[i]);
        part->id = pt_name_id(part->name);
        part->first_row = rows;
        part->ndim = spec.ndim;
        part->shape[0] = spec.rows[i];
        part->shape[1] = spec.cols;
        rows += spec.rows[i];
    }
    out->shape[0] = rows;
    out->shape[1] = spec.cols;
}

static int arch_count_params(const pt_arch_t *arch, int *per_layer)
{
    int outer = 0;

    *per_layer = 0;
    for (int role = 0; role < PT_ROLE_COUNT; role++) {
        outer += arch_has_outer(arch, role);
        *per_layer += arch_has_in_layer(arch, role);
    }
    return outer;
}

static void arch_place_params(pt_param_table_t *table)
{
    const pt_cut_t *cut = &table->cut;

    for (int p = 0; p < table->count; p++) {
        pt_param_t *param = &table->params[p];

        param->position = param->layer >= 0  ? pt_cut_position_of(cut, param->layer)
                          : param->unit == 0 ? 0
                                             : cut->positions - 1;
        param->stage = cut->stage[param->position];
    }
}

static pt_status_t arch_fill_table(const pt_arch_t *arch, pt_param_table_t *out)
{
    int64_t parameters;
    int outer, per_layer, at = 0, layers = (int)arch->layers;

    outer = arch_count_params(arch, &per_layer);
    PT_CHECK_COMMON(
        pt_arch_parameters(arch, &parameters) &&
            arch->layers < (INT32_MAX - outer) / MAX_LAYER_PARAMS,
        PT_CONFIG,
        "the model's sizes overflow: %lld layers of width %lld; lower model.layers or "
        "the widths",
        (long long)arch->layers, (long long)arch->hidden);
    PT_TRY(
        PT_NEW("parameter table", (size_t)(outer + layers * per_layer), &out->params));
    for (int role = 0; role < PT_ROLE_ATTENTION_NORM; role++)
        if (arch_has_outer(arch, role))
            arch_fill_param(arch, role, -1, 0, &out->params[at++]);
    for (int layer = 0; layer < layers; layer++)
        for (int role = 0; role < PT_ROLE_COUNT; role++)
            if (arch_has_in_layer(arch, role))
                arch_fill_param(arch, role, layer, 1 + layer, &out->params[at++]);
    for (int role = PT_ROLE_FINAL_NORM; role < PT_ROLE_COUNT; role++)
        if (arch_has_outer(arch, role))
            arch_fill_param(arch, role, -1, 1 + layers, &out->params[at++]);
    out->count = at;
    out->units = pt_arch_units(arch);
    arch_place_params(out);
    return PT_OK;
}

pt_status_t pt_param_table_create(const pt_arch_t *arch, pt_cut_t cut,
                                  pt_param_table_t *out)
{
    pt_status_t status;

    *out = (pt_param_table_t){.cut = cut};
    PT_TRY_GOTO(fail, arch_fill_table(arch, out));
    return PT_OK;
fail:
    pt_param_table_destroy(out);
    return status;
}

void pt_param_table_destroy(pt_param_table_t *table)
{
    pt_cut_destroy(&table->cut);
    pt_free(table->params);
    *table = (pt_param_table_t){0};
}

/* Rows ascend by unit, then by role. */
int pt_param_find(const pt_param_table_t *table, pt_role_t role, int layer)
{
    int unit = layer >= 0                      ? 1 + layer
               : role < PT_ROLE_ATTENTION_NORM ? 0
                                               : table->units - 1;
    int low = 0, high = table->count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        const pt_param_t *param = &table->params[middle];

        if (param->unit < unit || (param->unit == unit && param->role < role))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < table->count && table->params[low].role == role &&
        table->params[low].layer == layer)
        return low;
    return -1;
}

int64_t pt_param_table_elements(const pt_param_table_t *table)
{
    int64_t sum = 0;

    for (int i = 0; i < table->count; i++)
        sum += table->params[i].shape[0] * table->params[i].shape[1];
    return sum;
}

/* Chowdhery et al. 2022 (PaLM), appendix B: 6 FLOPs per parameter of a matrix product and token
 * (2 forward, 4 backward), and 12·H·D per layer and visible key. Of T keys a causal query sees
 * (T+1)/2 on average. The token table is looked up, not multiplied, unless it is the head too. */
double pt_arch_flops_per_token(const pt_arch_t *arch, int64_t sequence)
{
    double width = (double)arch->heads * (double)arch->head_dim;
    double kv = (double)arch->kv_heads * (double)arch->head_dim;
    double ffn_matrices = arch->activation == PT_ACTIVATION_SWIGLU ? 3 : 2;
    double hidden = (double)arch->hidden;
    double layer = hidden * (2 * width + 2 * kv + ffn_matrices * (double)arch->ffn);
    double keys = ((double)sequence + 1) / 2;

    return 6 * ((double)arch->layers * layer + (double)arch->vocab * hidden) +
           12 * (double)arch->layers * width * keys;
}
