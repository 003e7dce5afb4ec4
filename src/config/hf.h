/* SPDX-License-Identifier: Apache-2.0 */
/* hf.h — config.json of Hugging Face transformers (private to hf.c, hf_keys.c and
 * hf_rope.c). */
#ifndef PENTA_CONFIG_HF_H
#define PENTA_CONFIG_HF_H

#include "src/config/private.h"

#include <jansson.h>

typedef enum pt_hf_family {
    PT_HF_GPT2 = 1,
    PT_HF_LLAMA = 2,
    PT_HF_QWEN2 = 4,
    PT_HF_QWEN3 = 8
} pt_hf_family_t;

typedef struct pt_hf {
    const char *file;
    const json_t *root;
    pt_hf_family_t family;
    pt_config_t *out;
    bool dropout_given;
    int log_level; /* of the run; the log does not know it yet */
} pt_hf_t;

/* ---- hf.c ---- */
/* Raises CONFIG: "FILE: KEY: WHY". */
pt_status_t pt_hf_refuse(const pt_hf_t *hf, const char *key, const char *why);
/* Sets model.OPTION; its origin is the file and the key. */
pt_status_t pt_hf_set(const pt_hf_t *hf, const char *key, const char *option,
                      const char *text);
pt_status_t pt_hf_set_number(const pt_hf_t *hf, const char *key, const char *option,
                             double x);

/* ---- hf_keys.c ---- */
/* Checks all keys against the table: refuses the first key with a value that is not
 * allowed, warns of keys that no row of the family has, and logs those with a value
 * that has no effect here. */
pt_status_t pt_hf_check_keys(const pt_hf_t *hf);

/* ---- hf_rope.c ---- */
/* Sets model.rotary_base and rotary_fraction from the three places that may define
 * them. */
pt_status_t pt_hf_set_rope(const pt_hf_t *hf);

#endif
