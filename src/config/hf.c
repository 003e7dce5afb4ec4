/* config.json of Hugging Face transformers. Keys that are absent have the defaults of that
 * library's classes GPT2Config, LlamaConfig, Qwen2Config and Qwen3Config; what Penta cannot
 * represent is refused by name. */
#include "src/config/private.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct hf {
    const char *file;
    const json_t *root;
    pt_config_t *out;
    bool dropout_given;
} hf_t;

typedef struct hf_size {
    const char *key, *option;
    int64_t absent; /* -1: left open */
} hf_size_t;

static pt_status_t refuse(const hf_t *hf, const char *key, const char *why)
{
    return PT_FAIL_COMMON(PT_CONFIG, "%s: %s: %s", hf->file, key, why);
}

/* NULL when absent or null. */
static const json_t *value_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

static pt_status_t set(const hf_t *hf, const char *key, const char *option,
                       const char *text)
{
    char origin[PT_CONFIG_ORIGIN], dotted[64];
    int length = (int)strlen(hf->file), cut = length > 100 ? length - 100 : 0;

    snprintf(origin, sizeof origin, "%s%s: %s", cut ? "..." : "", hf->file + cut, key);
    snprintf(dotted, sizeof dotted, "model.%s", option);
    return pt_config_set(hf->out, dotted, text, origin);
}

static pt_status_t set_size(const hf_t *hf, const hf_size_t *row)
{
    const json_t *value = value_of(hf->root, row->key);
    int64_t n = value ? json_integer_value(value) : row->absent;
    char text[32];

    if (value && (!json_is_integer(value) || n < 1))
        return refuse(hf, row->key, "must be a whole number of at least 1");
    if (n < 0)
        return PT_OK;
    snprintf(text, sizeof text, "%lld", (long long)n);
    return set(hf, row->key, row->option, text);
}

static pt_status_t set_sizes(const hf_t *hf, const hf_size_t *rows)
{
    for (; rows->key; rows++)
        PT_TRY(set_size(hf, rows));
    return PT_OK;
}

static pt_status_t get_real(const hf_t *hf, const json_t *object, const char *key,
                            double absent, double *out)
{
    const json_t *value = value_of(object, key);

    *out = value ? json_number_value(value) : absent;
    return value && !json_is_number(value) ? refuse(hf, key, "must be a number")
                                           : PT_OK;
}

static pt_status_t set_real(const hf_t *hf, const char *key, const char *option,
                            double absent)
{
    double x;
    char text[32];

    PT_TRY(get_real(hf, hf->root, key, absent, &x));
    snprintf(text, sizeof text, "%.17g", x);
    return set(hf, key, option, text);
}

static pt_status_t get_bool(const hf_t *hf, const char *key, bool absent, bool *out)
{
    const json_t *value = value_of(hf->root, key);

    *out = value ? json_is_true(value) : absent;
    return value && !json_is_boolean(value) ? refuse(hf, key, "must be true or false")
                                            : PT_OK;
}

static pt_status_t must_be(const hf_t *hf, const char *key, bool absent, bool wanted)
{
    bool is;

    PT_TRY(get_bool(hf, key, absent, &is));
    return is == wanted
               ? PT_OK
               : refuse(hf, key,
                        wanted ? "false is not supported" : "true is not supported");
}

static pt_status_t set_tied(const hf_t *hf, bool absent)
{
    bool is;

    PT_TRY(get_bool(hf, "tie_word_embeddings", absent, &is));
    return set(hf, "tie_word_embeddings", "tied", is ? "yes" : "no");
}

static pt_status_t check_activation(const hf_t *hf, const char *key, const char *absent,
                                    const char *const known[2])
{
    const json_t *value = value_of(hf->root, key);
    const char *name = value ? json_string_value(value) : absent;
    char why[128], shown[40];

    if (!name)
        return refuse(hf, key, "must be a text");
    if (strcmp(name, known[0]) == 0 || strcmp(name, known[1]) == 0)
        return PT_OK;
    snprintf(why, sizeof why, "\"%s\" is not supported; \"%s\" is",
             pt_show(name, shown, sizeof shown), known[0]);
    return refuse(hf, key, why);
}

/* Keys of models with experts, whatever the family says of itself. */
static pt_status_t check_dense(const hf_t *hf)
{
    static const char *const keys[] = {"num_experts", "num_local_experts",
                                       "n_routed_experts", "moe_intermediate_size",
                                       "num_experts_per_tok"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (value_of(hf->root, keys[i]))
            return refuse(hf, keys[i], "mixtures of experts are not in this version");
    return PT_OK;
}

static pt_status_t check_windows(const hf_t *hf, bool window_alone_counts)
{
    const json_t *types = value_of(hf->root, "layer_types");

    PT_TRY(must_be(hf, "use_sliding_window", false, false));
    if (window_alone_counts && value_of(hf->root, "sliding_window"))
        return refuse(hf, "sliding_window", "windows are not supported");
    if (types && !json_is_array(types))
        return refuse(hf, "layer_types", "must be a list");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *name = json_string_value(json_array_get(types, i));

        if (!name || strcmp(name, "full_attention") != 0)
            return refuse(hf, "layer_types", "only \"full_attention\" is supported");
    }
    return PT_OK;
}

/* rope_scaling (older) or rope_parameters (since version 5): only the plain kind. */
static pt_status_t check_rope_object(const hf_t *hf, const char *key,
                                     const json_t *object)
{
    const char *kinds[] = {"rope_type", "type"};

    if (!json_is_object(object))
        return refuse(hf, key, "must be an object");
    for (int i = 0; i < 2; i++) {
        const json_t *kind = value_of(object, kinds[i]);
        const char *name = json_string_value(kind);
        char why[128], shown[40];

        if (!kind || (name && strcmp(name, "default") == 0))
            continue;
        snprintf(why, sizeof why, "%s \"%s\" is not supported; \"default\" is",
                 kinds[i], pt_show(name ? name : "?", shown, sizeof shown));
        return refuse(hf, key, why);
    }
    return PT_OK;
}

static pt_status_t set_rope(const hf_t *hf)
{
    const char *keys[] = {"rope_scaling", "rope_parameters"};
    const json_t *places[3] = {hf->root, NULL, NULL};
    double theta = 0, x, part;
    char text[32];

    for (int i = 0; i < 2; i++) {
        places[i + 1] = value_of(hf->root, keys[i]);
        if (places[i + 1])
            PT_TRY(check_rope_object(hf, keys[i], places[i + 1]));
    }
    for (int i = 0; i < 3; i++) {
        PT_TRY(get_real(hf, places[i], "rope_theta", 0, &x));
        PT_TRY(get_real(hf, places[i], "partial_rotary_factor", 1, &part));
        if (part != 1)
            return refuse(hf, "partial_rotary_factor", "this family knows only 1");
        if (x != 0 && theta != 0 && x != theta)
            return refuse(hf, "rope_theta", "two places, two values");
        theta = x != 0 ? x : theta;
    }
    snprintf(text, sizeof text, "%.17g", theta != 0 ? theta : 10000.0);
    PT_TRY(set(hf, "rope_theta", "rotary_base", text));
    return set(hf, "rope_parameters", "rotary_fraction", "1");
}

/* model.dropout is one rate for all sites. */
static pt_status_t set_gpt2_dropout(const hf_t *hf)
{
    static const char *const keys[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
    double rate[3];
    char text[32];

    for (int i = 0; i < 3; i++)
        PT_TRY(get_real(hf, hf->root, keys[i], 0.1, &rate[i]));
    if (hf->dropout_given)
        return PT_OK;
    for (int i = 1; i < 3; i++)
        if (rate[i] != rate[0])
            return refuse(
                hf, keys[i],
                "differs from resid_pdrop, but there is one rate: set model.dropout");
    snprintf(text, sizeof text, "%.17g", rate[0]);
    return set(hf, keys[0], "dropout", text);
}

static pt_status_t load_gpt2(const hf_t *hf)
{
    static const char *const gelu[2] = {"gelu_new", "gelu_pytorch_tanh"};
    static const hf_size_t sizes[] = {{"n_layer", "layers", 12},
                                      {"n_embd", "hidden", 768},
                                      {"n_head", "heads", 12},
                                      {"vocab_size", "vocab", 50257},
                                      {"n_positions", "max_positions", 1024},
                                      {"n_inner", "ffn", -1},
                                      {NULL, NULL, 0}};
    char text[32];

    PT_TRY(set_sizes(hf, sizes));
    if (hf->out->model.ffn == 0) {
        snprintf(text, sizeof text, "%lld", (long long)(4 * hf->out->model.hidden));
        PT_TRY(set(hf, "n_inner", "ffn", text));
    }
    PT_TRY(check_activation(hf, "activation_function", gelu[0], gelu));
    PT_TRY(must_be(hf, "scale_attn_weights", true, true));
    PT_TRY(must_be(hf, "scale_attn_by_inverse_layer_idx", false, false));
    PT_TRY(must_be(hf, "add_cross_attention", false, false));
    PT_TRY(set(hf, "model_type", "norm", "layer"));
    PT_TRY(set(hf, "model_type", "activation", "gelu"));
    PT_TRY(set(hf, "model_type", "positions", "learned"));
    PT_TRY(set(hf, "model_type", "qk_norm", "no"));
    PT_TRY(set(hf, "model_type", "bias", "all"));
    PT_TRY(set_real(hf, "layer_norm_epsilon", "norm_eps", 1e-5));
    PT_TRY(set_gpt2_dropout(hf));
    return set_tied(hf, true);
}

/* What Llama, Qwen2 and Qwen3 share. */
static pt_status_t load_rotary(const hf_t *hf, const char *bias, bool qk_norm)
{
    static const char *const silu[2] = {"silu", "swish"};
    double dropout;

    PT_TRY(check_activation(hf, "hidden_act", silu[0], silu));
    PT_TRY(get_real(hf, hf->root, "attention_dropout", 0, &dropout));
    if (dropout != 0 && !hf->dropout_given)
        return refuse(hf, "attention_dropout",
                      "dropout of attention alone is not supported: set model.dropout");
    PT_TRY(set_rope(hf));
    PT_TRY(set(hf, "model_type", "norm", "rms"));
    PT_TRY(set(hf, "model_type", "activation", "swiglu"));
    PT_TRY(set(hf, "model_type", "positions", "rotary"));
    PT_TRY(set(hf, "model_type", "qk_norm", qk_norm ? "yes" : "no"));
    PT_TRY(set(hf, "model_type", "bias", bias));
    PT_TRY(set_real(hf, "rms_norm_eps", "norm_eps", 1e-6));
    return set_tied(hf, false);
}

static pt_status_t load_llama(const hf_t *hf)
{
    static const hf_size_t sizes[] = {{"num_hidden_layers", "layers", 32},
                                      {"hidden_size", "hidden", 4096},
                                      {"intermediate_size", "ffn", 11008},
                                      {"num_attention_heads", "heads", 32},
                                      {"num_key_value_heads", "kv_heads", -1},
                                      {"head_dim", "head_dim", -1},
                                      {"vocab_size", "vocab", 32000},
                                      {"max_position_embeddings", "max_positions", 2048},
                                      {NULL, NULL, 0}};
    bool attention, mlp;

    PT_TRY(set_sizes(hf, sizes));
    PT_TRY(check_windows(hf, true));
    PT_TRY(get_bool(hf, "attention_bias", false, &attention));
    PT_TRY(get_bool(hf, "mlp_bias", false, &mlp));
    if (attention != mlp)
        return refuse(hf, attention ? "attention_bias" : "mlp_bias",
                      "true is supported only if attention_bias and mlp_bias both are");
    return load_rotary(hf, attention ? "all" : "none", false);
}

static pt_status_t load_qwen(const hf_t *hf, bool is_qwen3)
{
    const hf_size_t sizes[] = {
        {"num_hidden_layers", "layers", 32},
        {"hidden_size", "hidden", 4096},
        {"intermediate_size", "ffn", 22016},
        {"num_attention_heads", "heads", 32},
        /* Absent: 32; null: as many as heads. */
        {"num_key_value_heads", "kv_heads",
         json_object_get(hf->root, "num_key_value_heads") ? -1 : 32},
        {"head_dim", "head_dim",
         is_qwen3 && !json_object_get(hf->root, "head_dim") ? 128 : -1},
        {"vocab_size", "vocab", 151936},
        {"max_position_embeddings", "max_positions", 32768},
        {NULL, NULL, 0}};

    PT_TRY(set_sizes(hf, sizes));
    PT_TRY(check_windows(hf, false));
    if (is_qwen3)
        PT_TRY(must_be(hf, "attention_bias", false, false));
    return load_rotary(hf, is_qwen3 ? "none" : "qkv", is_qwen3);
}

static pt_status_t load_family(const hf_t *hf)
{
    const char *family = json_string_value(value_of(hf->root, "model_type"));
    char why[160], shown[40];

    if (!family)
        return refuse(hf, "model_type",
                      "missing; it must be gpt2, llama, qwen2 or qwen3");
    PT_TRY(check_dense(hf));
    PT_TRY(set_real(hf, "initializer_range", "init_std", 0.02));
    if (strcmp(family, "gpt2") == 0)
        return load_gpt2(hf);
    if (strcmp(family, "llama") == 0)
        return load_llama(hf);
    if (strcmp(family, "qwen2") == 0 || strcmp(family, "qwen3") == 0)
        return load_qwen(hf, family[4] == '3');
    snprintf(why, sizeof why,
             "\"%s\" is not supported; gpt2, llama, qwen2 and qwen3 are",
             pt_show(family, shown, sizeof shown));
    return refuse(hf, "model_type", why);
}

pt_status_t pt_hf_load(const char *file, const pt_json_text_t *json, bool dropout_given,
                       pt_config_t *out)
{
    json_error_t error;
    json_t *root = json_loadb(json->text, json->length, JSON_REJECT_DUPLICATES, &error);
    hf_t hf = {.file = file, .root = root, .out = out, .dropout_given = dropout_given};
    char shown[PT_SHOWN];
    pt_status_t status;

    if (!root)
        return PT_FAIL_COMMON(PT_CONFIG, "%s:%d: not JSON: %s", file, error.line,
                              pt_show(error.text, shown, sizeof shown));
    if (json_is_object(root))
        status = load_family(&hf);
    else
        status = PT_FAIL_COMMON(PT_CONFIG, "%s: not a JSON object", file);
    json_decref(root);
    return status;
}
