/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the options of the model that were not given, from the preset or
 * config.json. */
#include "src/config/private.h"
#include "penta/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL(key) PT_OPTION_model_##key

static bool fill_is_default(const pt_config_t *config, pt_option_id_t id)
{
    return config->source[id] == PT_SOURCE_DEFAULT;
}

/* 0 and "preset" ask for the value of the preset, even if given explicitly. Dropout and
 * init_std have no such value: for them only the source counts. */
bool pt_model_is_given(const pt_config_t *config, pt_option_id_t id)
{
    const pt_option_t *row = pt_option(id);
    const void *field = pt_option_view(config, row);

    if (id == MODEL(dropout) || id == MODEL(init_std))
        return !fill_is_default(config, id);
    switch (row->type) {
    case PT_TYPE_INT: return *(const int64_t *)field != 0;
    case PT_TYPE_REAL: return *(const double *)field != 0;
    case PT_TYPE_CHOICE: return *(const int *)field != 0;
    default: return true;
    }
}

static bool fill_is_needed(const pt_config_t *config, pt_option_id_t id)
{
    bool is_rotary_option = id == MODEL(rotary_base) || id == MODEL(rotary_fraction);

    return !(is_rotary_option && config->model.positions == PT_CHOOSE_LEARNED);
}

bool pt_model_is_complete(const pt_config_t *config)
{
    for (int id = MODEL(layers); id <= (int)MODEL(init_std); id++)
        if (fill_is_needed(config, id) && !pt_model_is_given(config, id))
            return false;
    return true;
}

static void fill_set_derived(pt_config_t *config, pt_option_id_t id, const char *value)
{
    (void)pt_option_store(config, pt_option(id), value, "derived");
    config->source[id] = PT_SOURCE_DERIVED;
}

static void fill_set_derived_int(pt_config_t *config, pt_option_id_t id, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    fill_set_derived(config, id, text);
}

/* A new width or number of heads invalidates the head width of the source. A new number
 * of heads also invalidates its number of KV heads, if that equals its number of
 * heads. */
static void fill_forget_stale(const pt_config_t *config, pt_config_t *source)
{
    bool same_heads = source->model.kv_heads == source->model.heads;

    if (config->model.heads != 0 || config->model.hidden != 0)
        source->model.head_dim = 0;
    if (config->model.heads != 0 && same_heads)
        source->model.kv_heads = 0;
}

static void fill_merge(pt_config_t *config, const pt_config_t *source)
{
    for (int id = MODEL(layers); id <= (int)MODEL(init_std); id++) {
        const pt_option_t *row = pt_option(id);

        if (pt_model_is_given(config, id) || !pt_model_is_given(source, id))
            continue;
        memcpy(pt_option_field(config, row), pt_option_view(source, row), row->size);
        memcpy(config->origin[id], source->origin[id], PT_CONFIG_ORIGIN);
        config->source[id] = source->source[id];
    }
}

static pt_status_t fill_derive(pt_config_t *config)
{
    char hidden[PT_CITED], heads[PT_CITED];
    int64_t below, n;

    if (config->model.kv_heads == 0 && config->model.heads > 0)
        fill_set_derived_int(config, MODEL(kv_heads), config->model.heads);
    if (config->model.head_dim == 0 && config->model.heads > 0 &&
        config->model.hidden > 0) {
        n = config->model.heads;
        below = config->model.hidden / n * n;
        if (config->model.hidden % n != 0)
            return PT_FAIL_COMMON(
                PT_CONFIG,
                "%s is not a multiple of %s: give model.head_dim, or change "
                "model.hidden to %lld",
                pt_cite(config, MODEL(hidden), hidden, sizeof hidden),
                pt_cite(config, MODEL(heads), heads, sizeof heads),
                (long long)(below > 0 && config->model.hidden - below <= n / 2
                                ? below
                                : below + n));
        fill_set_derived_int(config, MODEL(head_dim), config->model.hidden / n);
    }
    if (config->model.positions == PT_CHOOSE_ROTARY && config->model.rotary_base == 0)
        fill_set_derived(config, MODEL(rotary_base), "10000");
    if (config->model.positions == PT_CHOOSE_ROTARY &&
        config->model.rotary_fraction == 0)
        fill_set_derived(config, MODEL(rotary_fraction), "1");
    return PT_OK;
}

static pt_status_t fill_check_complete(const pt_config_t *config)
{
    char missing[512] = "";
    pt_text_t text = pt_text_init(missing, sizeof missing);

    for (int id = MODEL(layers); id < (int)MODEL(dropout); id++)
        if (fill_is_needed(config, id) && !pt_model_is_given(config, id))
            pt_text_add(&text, "%s model.%s", text.length ? "," : "",
                        pt_option(id)->key);
    if (text.length > 0)
        return PT_FAIL_COMMON(PT_CONFIG,
                              "the model is not complete:%s missing (a 0 counts as not "
                              "given); give them, or "
                              "model.preset, or model.config_json",
                              missing);
    return PT_OK;
}

static pt_status_t fill_load_source(pt_config_t *config, const pt_json_text_t *json,
                                    pt_config_t *source)
{
    char cited[PT_CITED], other[PT_CITED];

    pt_config_defaults(source);
    if (!config->model.config_json[0])
        return config->model.preset[0]
                   ? pt_preset_load(config->model.preset, config->origin[MODEL(preset)],
                                    source)
                   : PT_OK;
    if (!fill_is_default(config, MODEL(preset)) && config->model.preset[0])
        return PT_FAIL_COMMON(PT_CONFIG, "%s contradicts %s: give one of them",
                              pt_cite(config, MODEL(preset), cited, sizeof cited),
                              pt_cite(config, MODEL(config_json), other, sizeof other));
    fill_set_derived(config, MODEL(preset), "");
    if (pt_model_is_complete(config))
        return PT_OK;
    if (!json->text)
        return PT_FAIL_COMMON(PT_CONFIG,
                              "%s: its content is not part of this configuration",
                              pt_cite(config, MODEL(config_json), cited, sizeof cited));
    return pt_hf_load(config, json, source);
}

/* Lowers defaults that would contradict given values. */
static void fill_lower_defaults(pt_config_t *config)
{
    int64_t all =
        config->train.decay_steps ? config->train.decay_steps : config->train.steps;
    char text[64];

    if (fill_is_default(config, PT_OPTION_train_warmup) && config->train.warmup > all)
        fill_set_derived_int(config, PT_OPTION_train_warmup, all);
    if (fill_is_default(config, PT_OPTION_train_min_lr) &&
        config->train.min_lr > config->train.lr) {
        pt_config_value(config, PT_OPTION_train_lr, text, sizeof text);
        fill_set_derived(config, PT_OPTION_train_min_lr, text);
    }
}

int64_t pt_config_warmup(const pt_config_t *config, int64_t decay_steps)
{
    int64_t warmup = config->train.warmup;

    if (config->source[PT_OPTION_train_warmup] == PT_SOURCE_DERIVED)
        warmup = strtoll(pt_option(PT_OPTION_train_warmup)->default_text, NULL, 10);
    return warmup < decay_steps ? warmup : decay_steps;
}

pt_status_t pt_model_fill(pt_config_t *config, const pt_json_text_t *json)
{
    pt_config_t *source;
    pt_status_t status;

    PT_TRY(PT_NEW("preset", 1, &source));
    PT_TRY_GOTO(free_source, fill_load_source(config, json, source));
    fill_forget_stale(config, source);
    fill_merge(config, source);
    PT_TRY_GOTO(free_source, fill_derive(config));
    PT_TRY_GOTO(free_source, fill_check_complete(config));
    fill_lower_defaults(config);
free_source:
    pt_free(source);
    return status;
}
