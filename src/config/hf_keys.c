/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every key of a config.json against the table hf_keys.def. */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "src/config/hf.h"

#include <stdio.h>
#include <string.h>

enum {
    GPT2 = PT_HF_GPT2,
    LLAMA = PT_HF_LLAMA,
    QWEN2 = PT_HF_QWEN2,
    QWEN3 = PT_HF_QWEN3,
    ROTARY = LLAMA | QWEN2 | QWEN3,
    ALL = GPT2 | ROTARY
};

typedef struct hf_key {
    const char *name;
    int families;
    const char *allowed; /* JSON list; NULL: any */
    const char *text;    /* why refused, or note of an ignored key; NULL: honoured */
} hf_key_t;

static const hf_key_t keys[] = {
#define PT_HF_HONOURED(key, families, becomes)  {#key, families, NULL, NULL},
#define PT_HF_ONLY(key, families, allowed, why) {#key, families, allowed, why},
#define PT_HF_IDLE(key, families, note)         {#key, families, NULL, note},
#include "src/config/hf_keys.def"
#undef PT_HF_HONOURED
#undef PT_HF_ONLY
#undef PT_HF_IDLE
};

static const hf_key_t *hf_keys_find(const pt_hf_t *hf, const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if ((keys[i].families & hf->family) != 0 && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* A value as it is in the file, for messages. Returns `buffer`. */
static const char *hf_show(const json_t *value, char *buffer, size_t size)
{
    char text[64] = ""; /* jansson writes as much of a longer value as fits */
    size_t room = sizeof text - sizeof "...";

    if (json_dumpb(value, text, room, JSON_ENCODE_ANY | JSON_COMPACT) > room)
        memcpy(text + strlen(text), "...", sizeof "...");
    pt_show(text, buffer, size);
    return buffer;
}

static pt_status_t hf_check_value(const pt_hf_t *hf, const hf_key_t *key,
                                  const json_t *value)
{
    json_t *allowed = json_loads(key->allowed, 0, NULL);
    char why[PT_CITED], shown[40];
    bool fits = false;

    for (size_t i = 0; i < json_array_size(allowed); i++)
        fits = fits || json_equal(json_array_get(allowed, i), value);
    json_decref(allowed);
    if (fits)
        return PT_OK;
    snprintf(why, sizeof why, "%s is not supported: %s",
             hf_show(value, shown, sizeof shown), key->text);
    return pt_hf_refuse(hf, key->name,
                        strcmp(key->allowed, "[null]") == 0 ? key->text : why);
}

static void hf_add_note(pt_string_t *notes, const hf_key_t *key, const json_t *value)
{
    char shown[40];

    if (key->text && *key->text && !json_is_null(value))
        pt_string_add(notes, "%s %s %s (%s)", notes->length ? "," : "", key->name,
                      hf_show(value, shown, sizeof shown), key->text);
}

static void hf_add_unknown(pt_string_t *unknown, const char *name)
{
    char shown[PT_SHOWN];

    pt_string_add(unknown, "%s %s", unknown->length ? "," : "",
                  pt_show(name, shown, sizeof shown));
}

pt_status_t pt_hf_check_keys(const pt_hf_t *hf)
{
    pt_string_t notes = {0}, unknown = {0};
    pt_status_t status = PT_OK;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)hf->root, name, value)
    {
        const hf_key_t *key = hf_keys_find(hf, name);

        if (!key)
            hf_add_unknown(&unknown, name);
        else if (key->allowed)
            PT_TRY_GOTO(free_all, hf_check_value(hf, key, value));
        else
            hf_add_note(&notes, key, value);
    }
    PT_TRY_GOTO(free_all, notes.status);
    PT_TRY_GOTO(free_all, unknown.status);
    if (notes.length > 0 && hf->log_level >= (int)PT_LOG_INFO)
        pt_log_root(PT_LOG_INFO, "%s: keys without effect here:%s", hf->file,
                    notes.data);
    if (unknown.length > 0 && hf->log_level >= (int)PT_LOG_WARN)
        pt_log_root(PT_LOG_WARN,
                    "%s: this family has no such keys, they are ignored:%s "
                    "(doc/formats/config_json.md lists what counts)",
                    hf->file, unknown.data);
free_all:
    pt_free(notes.data);
    pt_free(unknown.data);
    return status;
}
