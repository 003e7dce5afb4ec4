/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face names: one table a family. Its tensors are the parts of the parameter table, except
 * that GPT-2 stores [in, out] (Conv1D) and q, k, v side by side. */
#include "penta/model/arch.h"

#include <stdio.h>
#include <string.h>

typedef struct hf_row {
    const char *part; /* of our name: what follows "layers.N.", or the whole */
    const char *name; /* of theirs: likewise what follows the layer's prefix */
    bool transposed;
    bool fused; /* all parts of the parameter are rows of one tensor */
} hf_row_t;

static const hf_row_t gpt2[] = {
    {"embedding.token.weight", "transformer.wte.weight", false, false},
    {"embedding.position.weight", "transformer.wpe.weight", false, false},
    {"attention.norm.weight", "ln_1.weight", false, false},
    {"attention.norm.bias", "ln_1.bias", false, false},
    {"attention.q.weight", "attn.c_attn.weight", true, true},
    {"attention.k.weight", "attn.c_attn.weight", true, true},
    {"attention.v.weight", "attn.c_attn.weight", true, true},
    {"attention.q.bias", "attn.c_attn.bias", false, true},
    {"attention.k.bias", "attn.c_attn.bias", false, true},
    {"attention.v.bias", "attn.c_attn.bias", false, true},
    {"attention.out.weight", "attn.c_proj.weight", true, false},
    {"attention.out.bias", "attn.c_proj.bias", false, false},
    {"ffn.norm.weight", "ln_2.weight", false, false},
    {"ffn.norm.bias", "ln_2.bias", false, false},
    {"ffn.in.weight", "mlp.c_fc.weight", true, false},
    {"ffn.in.bias", "mlp.c_fc.bias", false, false},
    {"ffn.out.weight", "mlp.c_proj.weight", true, false},
    {"ffn.out.bias", "mlp.c_proj.bias", false, false},
    {"head.norm.weight", "transformer.ln_f.weight", false, false},
    {"head.norm.bias", "transformer.ln_f.bias", false, false},
    {"head.weight", "lm_head.weight", false, false},
    {NULL, NULL, false, false},
};

/* Llama, Qwen2 (biases of q, k, v) and Qwen3 (norms of q and k). */
static const hf_row_t llama[] = {
    {"embedding.token.weight", "model.embed_tokens.weight", false, false},
    {"attention.norm.weight", "input_layernorm.weight", false, false},
    {"attention.q.weight", "self_attn.q_proj.weight", false, false},
    {"attention.k.weight", "self_attn.k_proj.weight", false, false},
    {"attention.v.weight", "self_attn.v_proj.weight", false, false},
    {"attention.q.bias", "self_attn.q_proj.bias", false, false},
    {"attention.k.bias", "self_attn.k_proj.bias", false, false},
    {"attention.v.bias", "self_attn.v_proj.bias", false, false},
    {"attention.q_norm.weight", "self_attn.q_norm.weight", false, false},
    {"attention.k_norm.weight", "self_attn.k_norm.weight", false, false},
    {"attention.out.weight", "self_attn.o_proj.weight", false, false},
    {"attention.out.bias", "self_attn.o_proj.bias", false, false},
    {"ffn.norm.weight", "post_attention_layernorm.weight", false, false},
    {"ffn.gate.weight", "mlp.gate_proj.weight", false, false},
    {"ffn.up.weight", "mlp.up_proj.weight", false, false},
    {"ffn.gate.bias", "mlp.gate_proj.bias", false, false},
    {"ffn.up.bias", "mlp.up_proj.bias", false, false},
    {"ffn.out.weight", "mlp.down_proj.weight", false, false},
    {"ffn.out.bias", "mlp.down_proj.bias", false, false},
    {"head.norm.weight", "model.norm.weight", false, false},
    {"head.weight", "lm_head.weight", false, false},
    {NULL, NULL, false, false},
};

/* NULL: a mixture no family has. */
static const hf_row_t *names_family_of(const pt_arch_t *arch, const char **layer_prefix)
{
    if (arch->norm == PT_NORM_LAYER && arch->activation == PT_ACTIVATION_GELU &&
        arch->positions == PT_POSITIONS_LEARNED && arch->bias_all && !arch->qk_norm &&
        arch->kv_heads == arch->heads && arch->heads * arch->head_dim == arch->hidden) {
        *layer_prefix = "transformer.h";
        return gpt2;
    }
    if (arch->norm == PT_NORM_RMS && arch->activation == PT_ACTIVATION_SWIGLU &&
        arch->positions == PT_POSITIONS_ROTARY && arch->rotary_fraction == 1) {
        *layer_prefix = "model.layers";
        return llama;
    }
    return NULL;
}

bool pt_arch_hf_name(const pt_arch_t *arch, const pt_param_t *param, int part,
                     pt_hf_name_t *out)
{
    const char *prefix, *name = param->part[part].name;
    const hf_row_t *row = names_family_of(arch, &prefix);

    if (!row)
        return false;
    if (param->layer >= 0) /* past "layers.N." */
        name = strchr(strchr(name, '.') + 1, '.') + 1;
    while (row->part && strcmp(row->part, name) != 0)
        row++;
    if (!row->part)
        return false;
    if (param->layer >= 0)
        snprintf(out->name, sizeof out->name, "%s.%d.%s", prefix, param->layer,
                 row->name);
    else
        snprintf(out->name, sizeof out->name, "%s", row->name);
    out->transposed = row->transposed;
    out->first_row = row->fused ? param->part[part].first_row : 0;
    out->rows = row->fused ? param->shape[0] : param->part[part].shape[0];
    return true;
}
