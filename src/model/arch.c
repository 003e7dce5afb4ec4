/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter table: every tensor of a model, in the order of its units. */
#include "penta/model/arch.h"
#include "penta/base/alloc.h"
#include "penta/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The parameters of any model ---- */

/* Lengths of a model that dimensions have. */
typedef enum length {
    ONE,
    HIDDEN,
    FFN,
    VOCAB,
    POSITIONS,
    HEAD,    /* the width of one */
    QUERIES, /* heads side by side */
    KEYS,
    LENGTHS
} length_t;

/* Which models have a parameter. */
typedef enum having {
    NO_MODEL,
    EVERY_MODEL,
    LAYER_NORM,
    LEARNED_POSITIONS,
    OWN_HEAD,
    NORMED_HEADS,
    BIAS_OF_QKV,
    BIAS_OF_ALL,
    HAVINGS
} having_t;

typedef struct row {
    having_t having;
    const char *names[PT_MAX_PARTS];   /* of its parts */
    length_t rows[PT_MAX_PARTS], cols; /* of each part; a vector has ONE column */
    pt_init_kind_t init;
    bool residual;       /* output of a residual branch */
    const char *ungated; /* of an FFN without a gate: the name of its only part */
    pt_shard_kind_t shard;
    int dim;              /* along which it is cut, */
    length_t granularity; /* at multiples of this */
    bool padded;          /* rows of the vocabulary need not divide */
    pt_placement_t grad;
} row_t;

/* By role. q|k|v are cut part by part between whole heads, so that a rank has the KV
 * heads its query heads use; the output projection is cut along the same columns. Ranks
 * that share the heads see only their own ones through the norms of heads. */
static const row_t row_of[PT_ROLE_COUNT] = {
    [PT_ROLE_TOKEN_EMBEDDING] = {EVERY_MODEL,
                                 {"embedding.token.weight"},
                                 {VOCAB},
                                 HIDDEN,
                                 .shard = PT_SHARD_PLAIN,
                                 .padded = true},
    [PT_ROLE_POSITION_EMBEDDING] = {LEARNED_POSITIONS,
                                    {"embedding.position.weight"},
                                    {POSITIONS},
                                    .cols = HIDDEN},
    [PT_ROLE_ATTENTION_NORM] = {EVERY_MODEL,
                                {"attention.norm.weight"},
                                {HIDDEN},
                                .init = PT_INIT_ONES},
    [PT_ROLE_ATTENTION_NORM_BIAS] = {LAYER_NORM,
                                     {"attention.norm.bias"},
                                     {HIDDEN},
                                     .init = PT_INIT_ZEROS},
    [PT_ROLE_QKV] = {EVERY_MODEL,
                     {"attention.q.weight", "attention.k.weight", "attention.v.weight"},
                     {QUERIES, KEYS, KEYS},
                     HIDDEN,
                     .shard = PT_SHARD_BLOCKED,
                     .granularity = HEAD},
    [PT_ROLE_QKV_BIAS] = {BIAS_OF_QKV,
                          {"attention.q.bias", "attention.k.bias", "attention.v.bias"},
                          {QUERIES, KEYS, KEYS},
                          .init = PT_INIT_ZEROS,
                          .shard = PT_SHARD_BLOCKED,
                          .granularity = HEAD},
    [PT_ROLE_Q_NORM] = {NORMED_HEADS,
                        {"attention.q_norm.weight"},
                        {HEAD},
                        .init = PT_INIT_ONES,
                        .grad = PT_PARTIAL_SUM},
    [PT_ROLE_K_NORM] = {NORMED_HEADS,
                        {"attention.k_norm.weight"},
                        {HEAD},
                        .init = PT_INIT_ONES,
                        .grad = PT_PARTIAL_SUM},
    [PT_ROLE_ATTENTION_OUT] = {EVERY_MODEL,
                               {"attention.out.weight"},
                               {HIDDEN},
                               QUERIES,
                               .residual = true,
                               .shard = PT_SHARD_PLAIN,
                               .dim = 1,
                               .granularity = HEAD},
    [PT_ROLE_ATTENTION_OUT_BIAS] = {BIAS_OF_ALL,
                                    {"attention.out.bias"},
                                    {HIDDEN},
                                    .init = PT_INIT_ZEROS},
    [PT_ROLE_FFN_NORM] = {EVERY_MODEL,
                          {"ffn.norm.weight"},
                          {HIDDEN},
                          .init = PT_INIT_ONES},
    [PT_ROLE_FFN_NORM_BIAS] = {LAYER_NORM,
                               {"ffn.norm.bias"},
                               {HIDDEN},
                               .init = PT_INIT_ZEROS},
    [PT_ROLE_FFN_IN] = {EVERY_MODEL,
                        {"ffn.gate.weight", "ffn.up.weight"},
                        {FFN, FFN},
                        HIDDEN,
                        .ungated = "ffn.in.weight",
                        .shard = PT_SHARD_BLOCKED},
    [PT_ROLE_FFN_IN_BIAS] = {BIAS_OF_ALL,
                             {"ffn.gate.bias", "ffn.up.bias"},
                             {FFN, FFN},
                             .init = PT_INIT_ZEROS,
                             .ungated = "ffn.in.bias",
                             .shard = PT_SHARD_BLOCKED},
    [PT_ROLE_FFN_OUT] = {EVERY_MODEL,
                         {"ffn.out.weight"},
                         {HIDDEN},
                         FFN,
                         .residual = true,
                         .shard = PT_SHARD_PLAIN,
                         .dim = 1},
    [PT_ROLE_FFN_OUT_BIAS] = {BIAS_OF_ALL,
                              {"ffn.out.bias"},
                              {HIDDEN},
                              .init = PT_INIT_ZEROS},
    [PT_ROLE_FINAL_NORM] = {EVERY_MODEL,
                            {"head.norm.weight"},
                            {HIDDEN},
                            .init = PT_INIT_ONES},
    [PT_ROLE_FINAL_NORM_BIAS] = {LAYER_NORM,
                                 {"head.norm.bias"},
                                 {HIDDEN},
                                 .init = PT_INIT_ZEROS},
    [PT_ROLE_HEAD] = {OWN_HEAD,
                      {"head.weight"},
                      {VOCAB},
                      HIDDEN,
                      .shard = PT_SHARD_PLAIN,
                      .padded = true},
};

static bool arch_has(const pt_arch_t *arch, pt_role_t role)
{
    const bool has[HAVINGS] = {
        [EVERY_MODEL] = true,
        [LAYER_NORM] = arch->norm == PT_NORM_LAYER,
        [LEARNED_POSITIONS] = arch->positions == PT_POSITIONS_LEARNED,
        [OWN_HEAD] = !arch->tied,
        [NORMED_HEADS] = arch->qk_norm,
        [BIAS_OF_QKV] = arch->bias_qkv || arch->bias_all,
        [BIAS_OF_ALL] = arch->bias_all,
    };

    return has[row_of[role].having];
}

static int64_t arch_length(const pt_arch_t *arch, length_t length)
{
    const int64_t of[LENGTHS] = {
        [ONE] = 1,
        [HIDDEN] = arch->hidden,
        [FFN] = arch->ffn,
        [VOCAB] = arch->vocab,
        [POSITIONS] = arch->max_positions,
        [HEAD] = arch->head_dim,
        [QUERIES] = arch->heads * arch->head_dim,
        [KEYS] = arch->kv_heads * arch->head_dim,
    };

    return of[length];
}

static bool arch_is_ungated(const pt_arch_t *arch, const row_t *row)
{
    return row->ungated && arch->activation != PT_ACTIVATION_SWIGLU;
}

static int arch_parts(const pt_arch_t *arch, const row_t *row)
{
    int parts = 1;

    while (!arch_is_ungated(arch, row) && parts < PT_MAX_PARTS && row->names[parts])
        parts++;
    return parts;
}

static bool arch_is_in_layer(pt_role_t role)
{
    return role >= PT_ROLE_ATTENTION_NORM && role < PT_ROLE_FINAL_NORM;
}

/* ---- A model ---- */

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

/* ---- Counts ---- */

static bool arch_add_elements(const pt_arch_t *arch, const row_t *row, int64_t *sum)
{
    int64_t cols = arch_length(arch, row->cols), elements;

    for (int i = 0; i < arch_parts(arch, row); i++)
        if (__builtin_mul_overflow(arch_length(arch, row->rows[i]), cols, &elements) ||
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
    for (int role = 0; role < PT_ROLE_COUNT; role++)
        if (arch_has(arch, role) &&
            !arch_add_elements(arch, &row_of[role],
                               arch_is_in_layer(role) ? &layer : &outer))
            return false;
    if (__builtin_mul_overflow(layer, arch->layers, &all) ||
        __builtin_add_overflow(all, outer, &all) || all > INT64_MAX / 16)
        return false;
    *out = all;
    return true;
}

/* ---- The table ---- */

static double arch_init_std(const pt_arch_t *arch, const row_t *row)
{
    if (row->init != PT_INIT_NORMAL)
        return 0;
    /* Radford et al. 2019, section 2.3: 1/sqrt(residual branches) */
    return row->residual ? arch->init_std / sqrt(2.0 * (double)arch->layers)
                         : arch->init_std;
}

static pt_part_t arch_part(const char *name, int layer)
{
    pt_part_t part = {0};

    if (layer >= 0)
        snprintf(part.name, sizeof part.name, "layers.%d.%s", layer, name);
    else
        snprintf(part.name, sizeof part.name, "%s", name);
    part.id = pt_name_id(part.name);
    return part;
}

static pt_param_t arch_param(const pt_arch_t *arch, pt_role_t role, int layer, int unit)
{
    const row_t *row = &row_of[role];
    int64_t cols = arch_length(arch, row->cols);
    int ndim = row->cols == ONE ? 1 : 2;
    pt_param_t param = {.role = role,
                        .layer = layer,
                        .ndim = ndim,
                        .shape = {0, cols},
                        .init = row->init,
                        .init_std = arch_init_std(arch, row),
                        .weight_decay = ndim == 2,
                        .shard = {.kind = row->shard,
                                  .dim = row->dim,
                                  .axis = PT_AXIS_TENSOR,
                                  .granularity = arch_length(arch, row->granularity),
                                  .padded = row->padded},
                        .grad = row->grad,
                        .unit = unit,
                        .parts = arch_parts(arch, row)};

    for (int i = 0; i < param.parts; i++) {
        int64_t rows = arch_length(arch, row->rows[i]);
        pt_part_t part =
            arch_part(arch_is_ungated(arch, row) ? row->ungated : row->names[i], layer);

        part.first_row = param.shape[0];
        part.ndim = ndim;
        part.shape[0] = rows;
        part.shape[1] = cols;
        param.part[i] = part;
        param.shape[0] += rows;
    }
    return param;
}

/* The roles [first, end) of a unit. */
static void arch_add_unit(const pt_arch_t *arch, int first, int end, int layer,
                          pt_param_table_t *out)
{
    for (int role = first; role < end; role++)
        if (arch_has(arch, role))
            out->params[out->count++] = arch_param(arch, role, layer, out->units);
    out->units++;
}

static size_t arch_count_params(const pt_arch_t *arch)
{
    size_t count = 0;

    for (int role = 0; role < PT_ROLE_COUNT; role++)
        if (arch_has(arch, role))
            count += arch_is_in_layer(role) ? (size_t)arch->layers : 1;
    return count;
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

    PT_CHECK_COMMON(
        pt_arch_parameters(arch, &parameters) &&
            arch->layers < INT32_MAX / PT_ROLE_COUNT,
        PT_CONFIG,
        "the model's sizes overflow: %lld layers of width %lld; lower model.layers or "
        "the widths",
        (long long)arch->layers, (long long)arch->hidden);
    PT_TRY(PT_NEW("parameter table", arch_count_params(arch), &out->params));
    arch_add_unit(arch, 0, PT_ROLE_ATTENTION_NORM, -1, out);
    for (int layer = 0; layer < (int)arch->layers; layer++)
        arch_add_unit(arch, PT_ROLE_ATTENTION_NORM, PT_ROLE_FINAL_NORM, layer, out);
    arch_add_unit(arch, PT_ROLE_FINAL_NORM, PT_ROLE_COUNT, -1, out);
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
