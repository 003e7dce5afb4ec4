/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json of Hugging Face transformers. Missing keys have the defaults of the
 * classes GPT2Config, LlamaConfig, Qwen2Config and Qwen3Config of that library; null is
 * accepted only where it is there. What Penta does not support is refused by name
 * (hf_keys.def). */
#include "src/config/hf.h"

#include <stdio.h>
#include <string.h>

typedef struct hf_size {
    const char *key, *alias; /* alias: another name of the key; NULL: none */
    const char *option;
    int64_t absent;   /* -1: no default */
    bool may_be_null; /* null means no value */
} hf_size_t;

pt_status_t pt_hf_refuse(const pt_hf_t *hf, const char *key, const char *why)
{
    return PT_FAIL_COMMON(PT_CONFIG, "%s: %s: %s", hf->file, key, why);
}

pt_status_t pt_hf_set(const pt_hf_t *hf, const char *key, const char *option,
                      const char *text)
{
    char origin[PT_CONFIG_ORIGIN], dotted[64];
    int length = (int)strlen(hf->file), cut = length > 100 ? length - 100 : 0;

    snprintf(origin, sizeof origin, "%s%s: %s", cut ? "..." : "", hf->file + cut, key);
    snprintf(dotted, sizeof dotted, "model.%s", option);
    return pt_config_set(hf->out, dotted, text, origin);
}

pt_status_t pt_hf_set_number(const pt_hf_t *hf, const char *key, const char *option,
                             double x)
{
    char text[32];

    snprintf(text, sizeof text, "%.17g", x);
    return pt_hf_set(hf, key, option, text);
}

/* *out: NULL if the key is missing, or null where that is allowed. */
static pt_status_t hf_get(const pt_hf_t *hf, const char *key, bool may_be_null,
                          const json_t **out)
{
    const json_t *value = json_object_get(hf->root, key);

    *out = json_is_null(value) ? NULL : value;
    if (value && !*out && !may_be_null)
        return pt_hf_refuse(
            hf, key, "null is not allowed here; leave the key out to get its default");
    return PT_OK;
}

/* Gets the key or its alias. If both are there, they must be equal. */
static pt_status_t hf_get_either(const pt_hf_t *hf, const hf_size_t *row,
                                 const char **key, const json_t **out)
{
    const json_t *other = NULL;
    char why[96];

    *key = row->key;
    PT_TRY(hf_get(hf, row->key, row->may_be_null, out));
    if (row->alias)
        PT_TRY(hf_get(hf, row->alias, row->may_be_null, &other));
    snprintf(why, sizeof why,
             "another name of %s, with a different value: give one of them", row->key);
    if (*out && other && !json_equal(*out, other))
        return pt_hf_refuse(hf, row->alias, why);
    if (!*out && other) {
        *key = row->alias;
        *out = other;
    }
    return PT_OK;
}

static pt_status_t hf_set_size(const pt_hf_t *hf, const hf_size_t *row)
{
    const json_t *value;
    const char *key;
    char text[32];
    int64_t n;

    PT_TRY(hf_get_either(hf, row, &key, &value));
    n = value ? json_integer_value(value) : row->absent;
    if (value && (!json_is_integer(value) || n < 1))
        return pt_hf_refuse(hf, key, "must be a whole number of at least 1");
    if (!value && json_object_get(hf->root, row->key))
        return PT_OK; /* null */
    if (n < 0)
        return PT_OK;
    snprintf(text, sizeof text, "%lld", (long long)n);
    return pt_hf_set(hf, key, row->option, text);
}

static pt_status_t hf_set_sizes(const pt_hf_t *hf, const hf_size_t *rows)
{
    for (; rows->key; rows++)
        PT_TRY(hf_set_size(hf, rows));
    return PT_OK;
}

static pt_status_t hf_get_real(const pt_hf_t *hf, const char *key, double absent,
                               double *out)
{
    const json_t *value;

    PT_TRY(hf_get(hf, key, false, &value));
    *out = value ? json_number_value(value) : absent;
    return value && !json_is_number(value) ? pt_hf_refuse(hf, key, "must be a number")
                                           : PT_OK;
}

static pt_status_t hf_set_real(const pt_hf_t *hf, const char *key, const char *option,
                               double absent)
{
    double x;

    PT_TRY(hf_get_real(hf, key, absent, &x));
    return pt_hf_set_number(hf, key, option, x);
}

/* 0 would mean the value of the preset. */
static pt_status_t hf_set_epsilon(const pt_hf_t *hf, const char *key, double absent)
{
    double x;

    PT_TRY(hf_get_real(hf, key, absent, &x));
    if (x <= 0)
        return pt_hf_refuse(hf, key, "must be above 0");
    return pt_hf_set_number(hf, key, "norm_eps", x);
}

static pt_status_t hf_get_bool(const pt_hf_t *hf, const char *key, bool absent,
                               bool *out)
{
    const json_t *value;

    PT_TRY(hf_get(hf, key, false, &value));
    *out = value ? json_is_true(value) : absent;
    return value && !json_is_boolean(value)
               ? pt_hf_refuse(hf, key, "must be true or false")
               : PT_OK;
}

static pt_status_t hf_set_tied(const pt_hf_t *hf, bool absent)
{
    bool is;

    PT_TRY(hf_get_bool(hf, "tie_word_embeddings", absent, &is));
    return pt_hf_set(hf, "tie_word_embeddings", "tied", is ? "yes" : "no");
}

static pt_status_t hf_check_activation(const pt_hf_t *hf, const char *key,
                                       const char *absent, const char *const known[2])
{
    const json_t *value;
    const char *name;
    char why[128], shown[40];

    PT_TRY(hf_get(hf, key, false, &value));
    name = value ? json_string_value(value) : absent;
    if (!name)
        return pt_hf_refuse(hf, key, "must be a string");
    if (strcmp(name, known[0]) == 0 || strcmp(name, known[1]) == 0)
        return PT_OK;
    snprintf(why, sizeof why, "\"%s\" is not supported; \"%s\" is",
             pt_show(name, shown, sizeof shown), known[0]);
    return pt_hf_refuse(hf, key, why);
}

static pt_status_t hf_check_layer_types(const pt_hf_t *hf)
{
    const json_t *types;
    char why[128];

    PT_TRY(hf_get(hf, "layer_types", true, &types));
    if (!types)
        return PT_OK;
    if (!json_is_array(types))
        return pt_hf_refuse(hf, "layer_types", "must be a list");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *name = json_string_value(json_array_get(types, i));

        if (!name || strcmp(name, "full_attention") != 0)
            return pt_hf_refuse(hf, "layer_types",
                                "only \"full_attention\" is supported");
    }
    snprintf(why, sizeof why, "lists %zu layers, but num_hidden_layers is %lld",
             json_array_size(types), (long long)hf->out->model.layers);
    return (int64_t)json_array_size(types) == hf->out->model.layers
               ? PT_OK
               : pt_hf_refuse(hf, "layer_types", why);
}

/* model.dropout is one rate for all three sites. */
static pt_status_t hf_set_gpt2_dropout(const pt_hf_t *hf)
{
    static const char *const keys[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
    double rate[3];

    for (int i = 0; i < 3; i++)
        PT_TRY(hf_get_real(hf, keys[i], 0.1, &rate[i]));
    if (hf->dropout_given)
        return PT_OK;
    for (int i = 1; i < 3; i++)
        if (rate[i] != rate[0])
            return pt_hf_refuse(hf, keys[i],
                                "differs from resid_pdrop, but only one rate is "
                                "supported: set model.dropout");
    return pt_hf_set_number(hf, keys[0], "dropout", rate[0]);
}

static pt_status_t hf_load_gpt2(const pt_hf_t *hf)
{
    static const char *const gelu[2] = {"gelu_new", "gelu_pytorch_tanh"};
    static const hf_size_t sizes[] = {
        {"n_layer", "num_hidden_layers", "layers", 12, false},
        {"n_embd", "hidden_size", "hidden", 768, false},
        {"n_head", "num_attention_heads", "heads", 12, false},
        {"vocab_size", NULL, "vocab", 50257, false},
        {"n_positions", "max_position_embeddings", "max_positions", 1024, false},
        {"n_inner", NULL, "ffn", -1, true},
        {NULL, NULL, NULL, 0, false}};
    char text[32];

    PT_TRY(hf_set_sizes(hf, sizes));
    if (hf->out->model.ffn == 0) {
        snprintf(text, sizeof text, "%lld", (long long)(4 * hf->out->model.hidden));
        PT_TRY(pt_hf_set(hf, "n_inner", "ffn", text));
    }
    PT_TRY(hf_check_activation(hf, "activation_function", gelu[0], gelu));
    PT_TRY(pt_hf_set(hf, "model_type", "norm", "layer"));
    PT_TRY(pt_hf_set(hf, "model_type", "activation", "gelu"));
    PT_TRY(pt_hf_set(hf, "model_type", "positions", "learned"));
    PT_TRY(pt_hf_set(hf, "model_type", "qk_norm", "no"));
    PT_TRY(pt_hf_set(hf, "model_type", "bias", "all"));
    PT_TRY(hf_set_epsilon(hf, "layer_norm_epsilon", 1e-5));
    PT_TRY(hf_set_gpt2_dropout(hf));
    return hf_set_tied(hf, true);
}

static pt_status_t hf_check_dropout(const pt_hf_t *hf)
{
    const json_t *value;

    PT_TRY(hf_get(hf, "attention_dropout", true, &value));
    if (value && !json_is_number(value))
        return pt_hf_refuse(hf, "attention_dropout", "must be a number");
    if (value && json_number_value(value) != 0 && !hf->dropout_given)
        return pt_hf_refuse(
            hf, "attention_dropout",
            "dropout of attention alone is not supported: set model.dropout");
    return PT_OK;
}

/* The keys that Llama, Qwen2 and Qwen3 share. */
static pt_status_t hf_load_rotary(const pt_hf_t *hf, const char *bias, bool qk_norm)
{
    static const char *const silu[2] = {"silu", "swish"};

    PT_TRY(hf_check_layer_types(hf));
    PT_TRY(hf_check_activation(hf, "hidden_act", silu[0], silu));
    PT_TRY(hf_check_dropout(hf));
    PT_TRY(pt_hf_set_rope(hf));
    PT_TRY(pt_hf_set(hf, "model_type", "norm", "rms"));
    PT_TRY(pt_hf_set(hf, "model_type", "activation", "swiglu"));
    PT_TRY(pt_hf_set(hf, "model_type", "positions", "rotary"));
    PT_TRY(pt_hf_set(hf, "model_type", "qk_norm", qk_norm ? "yes" : "no"));
    PT_TRY(pt_hf_set(hf, "model_type", "bias", bias));
    PT_TRY(hf_set_epsilon(hf, "rms_norm_eps", 1e-6));
    return hf_set_tied(hf, false);
}

static pt_status_t hf_load_llama(const pt_hf_t *hf)
{
    static const hf_size_t sizes[] = {
        {"num_hidden_layers", NULL, "layers", 32, false},
        {"hidden_size", NULL, "hidden", 4096, false},
        {"intermediate_size", NULL, "ffn", 11008, false},
        {"num_attention_heads", NULL, "heads", 32, false},
        {"num_key_value_heads", NULL, "kv_heads", -1, true},
        {"head_dim", NULL, "head_dim", -1, true},
        {"vocab_size", NULL, "vocab", 32000, false},
        {"max_position_embeddings", NULL, "max_positions", 2048, false},
        {NULL, NULL, NULL, 0, false}};
    bool attention, mlp;

    PT_TRY(hf_set_sizes(hf, sizes));
    PT_TRY(hf_get_bool(hf, "attention_bias", false, &attention));
    PT_TRY(hf_get_bool(hf, "mlp_bias", false, &mlp));
    if (attention != mlp)
        return pt_hf_refuse(
            hf, attention ? "attention_bias" : "mlp_bias",
            "true is supported only if attention_bias and mlp_bias both are");
    return hf_load_rotary(hf, attention ? "all" : "none", false);
}

static pt_status_t hf_load_qwen(const pt_hf_t *hf)
{
    bool is_qwen3 = hf->family == PT_HF_QWEN3;
    const hf_size_t sizes[] = {
        {"num_hidden_layers", NULL, "layers", 32, false},
        {"hidden_size", NULL, "hidden", 4096, false},
        {"intermediate_size", NULL, "ffn", 22016, false},
        {"num_attention_heads", NULL, "heads", 32, false},
        {"num_key_value_heads", NULL, "kv_heads", 32, true},
        {"head_dim", NULL, "head_dim", is_qwen3 ? 128 : -1, !is_qwen3},
        {"vocab_size", NULL, "vocab", 151936, false},
        {"max_position_embeddings", NULL, "max_positions", 32768, false},
        {NULL, NULL, NULL, 0, false}};

    PT_TRY(hf_set_sizes(hf, sizes));
    return hf_load_rotary(hf, is_qwen3 ? "none" : "qkv", is_qwen3);
}

static pt_status_t hf_load_family(pt_hf_t *hf)
{
    static const struct {
        const char *name;
        pt_hf_family_t family;
    } families[] = {{"gpt2", PT_HF_GPT2},
                    {"llama", PT_HF_LLAMA},
                    {"qwen2", PT_HF_QWEN2},
                    {"qwen3", PT_HF_QWEN3}};
    const char *name = json_string_value(json_object_get(hf->root, "model_type"));
    char why[160], shown[40];

    if (!name)
        return pt_hf_refuse(hf, "model_type",
                            "missing; it must be gpt2, llama, qwen2 or qwen3");
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(name, families[i].name) == 0)
            hf->family = families[i].family;
    snprintf(why, sizeof why,
             "\"%s\" is not supported; gpt2, llama, qwen2 and qwen3 are",
             pt_show(name, shown, sizeof shown));
    if (hf->family == 0)
        return pt_hf_refuse(hf, "model_type", why);
    PT_TRY(pt_hf_check_keys(hf));
    PT_TRY(hf_set_real(hf, "initializer_range", "init_std", 0.02));
    return hf->family == PT_HF_GPT2    ? hf_load_gpt2(hf)
           : hf->family == PT_HF_LLAMA ? hf_load_llama(hf)
                                       : hf_load_qwen(hf);
}

pt_status_t pt_hf_load(const pt_config_t *config, const pt_json_text_t *json,
                       pt_config_t *out)
{
    const char *file = config->model.config_json;
    json_error_t error;
    json_t *root = json_loadb(json->text, json->length, JSON_REJECT_DUPLICATES, &error);
    pt_hf_t hf = {.file = file,
                  .root = root,
                  .out = out,
                  .dropout_given = pt_model_is_given(config, PT_OPTION_model_dropout),
                  .log_level = config->run.log_level};
    char shown[PT_SHOWN];
    pt_status_t status;

    if (!root)
        return PT_FAIL_COMMON(PT_CONFIG, "%s:%d: not JSON: %s", file, error.line,
                              pt_show(error.text, shown, sizeof shown));
    if (json_is_object(root))
        status = hf_load_family(&hf);
    else
        status = PT_FAIL_COMMON(PT_CONFIG, "%s: not a JSON object", file);
    json_decref(root);
    return status;
}
