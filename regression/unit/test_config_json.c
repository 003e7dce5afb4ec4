/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of the four families: defaults of absent keys, refusals, and the way
 * through the gathered text. The expected defaults are those of transformers 5.24
 * (configuration_gpt2.py, configuration_llama.py, configuration_qwen2.py,
 * configuration_qwen3.py). */
#include "penta/base/alloc.h"
#include "penta/config/config.h"
#include "regression/tap.h"

#include <string.h>
#include <unistd.h>

static pt_config_t config;

static pt_status_t load(const char *json, const char *second, char **kept)
{
    char *gathered, *args[2] = {"model.config_json=config.json", (char *)second};
    FILE *file = fopen("config.json", "w");
    pt_status_t status;

    fputs(json, file);
    fclose(file);
    pt_error_clear();
    status = pt_config_gather(NULL, second ? 2 : 1, args, &gathered);
    remove("config.json"); /* parsing must not need it */
    if (status == PT_OK)
        status = pt_config_parse(gathered, &config);
    if (kept)
        *kept = gathered;
    else
        pt_free(gathered);
    return status;
}

typedef struct expected {
    const char *json;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, max_positions;
    int norm, activation, positions, qk_norm, bias, tied;
    double norm_eps, rotary_base, dropout, init_std;
} expected_t;

static const expected_t expected[] = {
    {"{\"model_type\": \"gpt2\"}", 12, 768, 3072, 12, 12, 64, 50257, 1024, 1, 1, 1, 2,
     3, 1, 1e-5, 0, 0.1, 0.02},
    {"{\"model_type\": \"gpt2\", \"n_embd\": 96, \"n_head\": 4, \"n_inner\": null, "
     "\"resid_pdrop\": 0, \"embd_pdrop\": 0.0, \"attn_pdrop\": 0, "
     "\"tie_word_embeddings\": false, "
     "\"activation_function\": \"gelu_pytorch_tanh\", \"initializer_range\": 0.5}",
     12, 96, 384, 4, 4, 24, 50257, 1024, 1, 1, 1, 2, 3, 2, 1e-5, 0, 0, 0.5},
    {"{\"model_type\": \"llama\"}", 32, 4096, 11008, 32, 32, 128, 32000, 2048, 2, 2, 2,
     2, 1, 2, 1e-6, 10000, 0, 0.02},
    {"{\"model_type\": \"llama\", \"num_attention_heads\": 8, \"hidden_size\": 64, "
     "\"head_dim\": "
     "6, \"num_key_value_heads\": 2, \"rope_theta\": 5e5, \"rope_parameters\": "
     "{\"rope_type\": "
     "\"default\", \"rope_theta\": 500000}, \"attention_bias\": true, \"mlp_bias\": "
     "true}",
     32, 64, 11008, 8, 2, 6, 32000, 2048, 2, 2, 2, 2, 3, 2, 1e-6, 5e5, 0, 0.02},
    {"{\"model_type\": \"qwen2\"}", 32, 4096, 22016, 32, 32, 128, 151936, 32768, 2, 2,
     2, 2, 2, 2, 1e-6, 10000, 0, 0.02},
    {"{\"model_type\": \"qwen3\", \"rope_scaling\": null, \"tie_word_embeddings\": "
     "true}",
     32, 4096, 22016, 32, 32, 128, 151936, 32768, 2, 2, 2, 1, 1, 1, 1e-6, 10000, 0,
     0.02},
    {"{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"num_attention_heads\": 16, "
     "\"num_key_value_heads\": null, \"rope_parameters\": {\"rope_theta\": 1e6}}",
     32, 1024, 22016, 16, 16, 128, 151936, 32768, 2, 2, 2, 1, 1, 2, 1e-6, 1e6, 0, 0.02},
};

static void check_defaults(void)
{
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const expected_t *e = &expected[i];
        pt_status_t status = load(e->json, NULL, NULL);

        tap_ok(status == PT_OK, "%.60s: %s", e->json, pt_error_last()->text);
        tap_ok(config.model.layers == e->layers && config.model.hidden == e->hidden &&
                   config.model.ffn == e->ffn && config.model.heads == e->heads &&
                   config.model.kv_heads == e->kv_heads &&
                   config.model.head_dim == e->head_dim &&
                   config.model.vocab == e->vocab &&
                   config.model.max_positions == e->max_positions,
               "its sizes");
        tap_ok(config.model.norm == e->norm &&
                   config.model.activation == e->activation &&
                   config.model.positions == e->positions &&
                   config.model.qk_norm == e->qk_norm && config.model.bias == e->bias &&
                   config.model.tied == e->tied,
               "its kinds");
        tap_ok(config.model.norm_eps == e->norm_eps &&
                   config.model.rotary_base == e->rotary_base &&
                   config.model.dropout == e->dropout &&
                   config.model.init_std == e->init_std,
               "its numbers");
    }
}

#define LLAMA "{\"model_type\": \"llama\", "
#define QWEN3 "{\"model_type\": \"qwen3\", "
#define GPT2  "{\"model_type\": \"gpt2\", "

static const struct {
    const char *json, *parts[2];
} refused[] = {
    {"", {"config.json:1: not JSON"}},
    {"{", {"config.json:1: not JSON"}},
    {"{\n\"model_type\": \"gpt2\",\n}", {"config.json:3: not JSON"}},
    {"\xff\xfe{}", {"UTF-16", "save it as UTF-8"}},
    {"\x80{}", {"not JSON"}},
    {"[1, 2]", {"config.json: not a JSON object"}},
    {"{}", {"model_type: missing", "gpt2, llama, qwen2 or qwen3"}},
    {"{\"model_type\": 3}", {"model_type: missing"}},
    {"{\"model_type\": \"mixtral\"}", {"\"mixtral\" is not supported"}},
    {"{\"model_type\": \"gpt2\", \"model_type\": \"llama\"}", {"not JSON: duplicate"}},
    {LLAMA "\"hidden_size\": \"big\"}", {"hidden_size: must be a whole number"}},
    {LLAMA "\"hidden_size\": 4096.5}", {"hidden_size: must be a whole number"}},
    {LLAMA "\"hidden_size\": -4}", {"hidden_size: must be a whole number"}},
    {LLAMA "\"hidden_size\": 99999999999}",
     {"config.json: hidden_size: model.hidden=99999999999", "nearest is 1048576"}},
    {LLAMA "\"hidden_size\": 99999999999999999999}", {"not JSON: too big integer"}},
    {LLAMA "\"num_key_value_heads\": 5}", {"model.kv_heads=5", "nearest is 4"}},
    {LLAMA "\"rms_norm_eps\": \"x\"}", {"rms_norm_eps: must be a number"}},
    {LLAMA "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}}",
     {"rope_scaling: rope_type \"llama3\""}},
    {LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}",
     {"rope_scaling: type \"linear\""}},
    {LLAMA "\"rope_parameters\": {\"rope_type\": \"yarn\"}}",
     {"rope_parameters: rope_type \"yarn\""}},
    {LLAMA "\"rope_parameters\": 3}", {"rope_parameters: must be an object"}},
    {LLAMA "\"rope_theta\": 1, \"rope_parameters\": {\"rope_theta\": 2}}",
     {"rope_theta: given twice"}},
    {LLAMA "\"partial_rotary_factor\": 0.5}", {"partial_rotary_factor"}},
    {LLAMA "\"hidden_act\": \"gelu\"}", {"hidden_act: \"gelu\"", "\"silu\" is"}},
    {LLAMA "\"attention_bias\": true}", {"attention_bias: true"}},
    {LLAMA "\"mlp_bias\": true}", {"mlp_bias: true"}},
    {LLAMA "\"mlp_bias\": 1}", {"mlp_bias: must be true or false"}},
    {LLAMA "\"attention_dropout\": 0.1}", {"attention_dropout", "set model.dropout"}},
    {LLAMA "\"sliding_window\": 4096}", {"sliding_window"}},
    {LLAMA "\"num_local_experts\": 8}", {"num_local_experts: mixtures of experts"}},
    {LLAMA "\"tie_word_embeddings\": \"no\"}",
     {"tie_word_embeddings: must be true or false"}},
    {QWEN3 "\"use_sliding_window\": true}", {"use_sliding_window"}},
    {QWEN3 "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
     {"layer_types"}},
    {QWEN3 "\"attention_bias\": true}", {"attention_bias: true"}},
    {GPT2 "\"activation_function\": \"relu\"}",
     {"activation_function: \"relu\"", "gelu_new"}},
    {GPT2 "\"activation_function\": \"gelu\"}", {"activation_function: \"gelu\""}},
    {GPT2 "\"attn_pdrop\": 0.0}", {"attn_pdrop", "set model.dropout"}},
    {GPT2 "\"scale_attn_weights\": false}", {"scale_attn_weights: false"}},
    {GPT2 "\"scale_attn_by_inverse_layer_idx\": true}",
     {"scale_attn_by_inverse_layer_idx: true"}},
    {GPT2 "\"n_head\": 7}", {"n_embd", "n_head"}},
};

static void check_refusals(void)
{
    static char deep[300000];

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        pt_status_t status = load(refused[i].json, NULL, NULL);
        const pt_error_t *error = pt_error_last();
        int missing = 0;

        for (int j = 0; j < 2 && refused[i].parts[j]; j++)
            missing += strstr(error->text, refused[i].parts[j]) == NULL;
        tap_ok(status == PT_CONFIG && error->scope == PT_SCOPE_COMMON && missing == 0,
               "%s", error->text);
    }
    memset(deep, '[', sizeof deep - 1);
    tap_ok(load(deep, NULL, NULL) == PT_CONFIG, "300,000 brackets: %s",
           pt_error_last()->text);
}

static void check_overrides(void)
{
    char *gathered, *ini;

    tap_ok(load(GPT2 "\"attn_pdrop\": 0.0}", "model.dropout=0", NULL) == PT_OK &&
               config.model.dropout == 0,
           "model.dropout settles unequal rates: %s", pt_error_last()->text);
    tap_ok(load(QWEN3 "\"vocab_size\": 300}", "model.layers=3", &gathered) == PT_OK &&
               config.model.layers == 3 && config.model.vocab == 300,
           "keys override config.json");
    tap_ok(strcmp(config.origin[PT_OPTION_model_vocab], "config.json: vocab_size") ==
                   0 &&
               config.model.preset[0] == '\0',
           "its origin is the key; the default preset is gone");
    pt_free(gathered);
    pt_config_to_ini(&config, &ini);
    tap_ok(pt_config_parse(ini, &config) == PT_OK,
           "the resolved text needs no config.json: %s", pt_error_last()->text);
    gathered = NULL;
    {
        FILE *file = fopen("resolved.ini", "w");

        fputs(ini, file);
        fclose(file);
    }
    tap_ok(pt_config_gather("resolved.ini", 0, NULL, &gathered) == PT_OK &&
               pt_config_parse(gathered, &config) == PT_OK && config.model.vocab == 300,
           "nor does a run started from it: %s", pt_error_last()->text);
    pt_free(gathered);
    pt_free(ini);
    pt_error_clear();
    tap_ok(pt_config_parse("[model]\nconfig_json = gone.json\n", &config) == PT_CONFIG &&
               strstr(pt_error_last()->text, "gone.json"),
           "text without the content says so: %s", pt_error_last()->text);
}

int main(void)
{
    check_defaults();
    check_refusals();
    check_overrides();
    return tap_done();
}
