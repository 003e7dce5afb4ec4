/* SPDX-License-Identifier: Apache-2.0 */
/* The presets of model.preset. */
#include "src/config/private.h"

#include <stdio.h>
#include <string.h>

#define LLAMA "norm=rms activation=swiglu positions=rotary rotary_fraction=1 bias=none "

static const struct {
    const char *name, *values;
} presets[] = {
    {"tiny",
     LLAMA "layers=8 hidden=96 ffn=256 heads=8 kv_heads=4 head_dim=12 vocab=256 "
           "max_positions=4096 rotary_base=10000 norm_eps=1e-5 qk_norm=no tied=no"},
    /* Radford et al. 2019; openai-community/gpt2. The user chooses the dropout. */
    {"gpt2-124m",
     "norm=layer activation=gelu positions=learned bias=all layers=12 hidden=768 "
     "ffn=3072 heads=12 kv_heads=12 head_dim=64 vocab=50257 max_positions=1024 "
     "norm_eps=1e-5 qk_norm=no tied=yes"},
    /* Dubey et al. 2024, table 3. */
    {"llama3-8b",
     LLAMA "layers=32 hidden=4096 ffn=14336 heads=32 kv_heads=8 head_dim=128 "
           "vocab=128256 max_positions=8192 rotary_base=500000 norm_eps=1e-5 "
           "qk_norm=no tied=no"},
    {"llama3-70b",
     LLAMA "layers=80 hidden=8192 ffn=28672 heads=64 kv_heads=8 head_dim=128 "
           "vocab=128256 max_positions=8192 rotary_base=500000 norm_eps=1e-5 "
           "qk_norm=no tied=no"},
    {"llama3-405b",
     LLAMA "layers=126 hidden=16384 ffn=53248 heads=128 kv_heads=8 head_dim=128 "
           "vocab=128256 max_positions=8192 rotary_base=500000 norm_eps=1e-5 "
           "qk_norm=no tied=no"},
    /* Qwen team 2025; Qwen/Qwen3-8B. */
    {"qwen3-8b",
     LLAMA "layers=36 hidden=4096 ffn=12288 heads=32 kv_heads=8 head_dim=128 "
           "vocab=151936 max_positions=40960 rotary_base=1e6 norm_eps=1e-6 "
           "qk_norm=yes tied=no"},
};

enum { PRESETS = (int)(sizeof presets / sizeof presets[0]) };

static pt_status_t preset_load_values(const char *name, const char *values,
                                      pt_config_t *out)
{
    char dotted[64], value[32], origin[64];

    snprintf(origin, sizeof origin, "preset %s", name);
    while (*values) {
        size_t word = strcspn(values, " "), key = strcspn(values, "=");

        snprintf(dotted, sizeof dotted, "model.%.*s", (int)key, values);
        snprintf(value, sizeof value, "%.*s", (int)(word - key - 1), values + key + 1);
        PT_TRY(pt_config_set(out, dotted, value, origin));
        values += word;
        values += strspn(values, " ");
    }
    return PT_OK;
}

pt_status_t pt_preset_load(const char *name, const char *origin, pt_config_t *out)
{
    char all[256], nearest[64], maybe[96] = "", shown[PT_SHOWN];
    pt_text_t list = pt_text_init(all, sizeof all);

    for (int i = 0; i < PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0)
            return preset_load_values(name, presets[i].values, out);
        pt_text_add(&list, "%s%s", i ? "|" : "", presets[i].name);
    }
    if (pt_nearest_word(all, name, nearest, sizeof nearest))
        snprintf(maybe, sizeof maybe, ", maybe: %s?", nearest);
    return PT_FAIL_COMMON(PT_CONFIG,
                          "%s: model.preset=%s: no such preset%s; there are %s", origin,
                          pt_show(name, shown, sizeof shown), maybe, all);
}
