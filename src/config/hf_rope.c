/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rotary positions of a config.json: rope_theta at the root (transformers 4),
 * rope_scaling (4, only the default type), rope_parameters (5), either flat or with an
 * object for each layer type. */
#include "src/config/hf.h"

#include <stdio.h>
#include <string.h>

typedef struct rope {
    const pt_hf_t *hf;
    double theta;
    char key[96]; /* where it was found; "": nowhere yet */
} rope_t;

/* `place`: "", or a prefix such as "rope_parameters: ", for messages. */
static pt_status_t hf_take_theta(rope_t *rope, const char *place, const json_t *object)
{
    const json_t *value = json_object_get(object, "rope_theta");
    double theta = json_number_value(value);
    char key[96];

    if (!value)
        return PT_OK;
    snprintf(key, sizeof key, "%srope_theta", place);
    if (!json_is_number(value))
        return pt_hf_refuse(rope->hf, key, "must be a number above 1");
    if (rope->key[0] && theta != rope->theta)
        return pt_hf_refuse(rope->hf, key, "given twice, with different values");
    memcpy(rope->key, key, sizeof key);
    rope->theta = theta;
    return PT_OK;
}

/* Transformers before version 4.45 call "rope_type" "type". */
static pt_status_t hf_check_kind(const pt_hf_t *hf, const char *place,
                                 const json_t *object)
{
    static const char *const kinds[] = {"rope_type", "type"};

    for (int i = 0; i < 2; i++) {
        const json_t *kind = json_object_get(object, kinds[i]);
        const char *name = json_string_value(kind);
        char why[128], shown[40];

        if (!kind || json_is_null(kind) || (name && strcmp(name, "default") == 0))
            continue;
        snprintf(why, sizeof why, "%s \"%s\" is not supported; \"default\" is",
                 kinds[i], pt_show(name ? name : "?", shown, sizeof shown));
        return pt_hf_refuse(hf, place, why);
    }
    return PT_OK;
}

static pt_status_t hf_check_fraction(const pt_hf_t *hf, const char *place,
                                     const json_t *object)
{
    const json_t *value = json_object_get(object, "partial_rotary_factor");
    char why[96];

    if (!value || json_is_null(value) || json_number_value(value) == 1)
        return PT_OK;
    snprintf(why, sizeof why, "partial_rotary_factor: this family knows only 1");
    return pt_hf_refuse(hf, place, why);
}

/* Only the keys of the default type are accepted. `place`: "rope_scaling" and such, for
 * messages. */
static pt_status_t hf_take_flat(rope_t *rope, const char *place, const json_t *object)
{
    static const char *const known[] = {"rope_type", "type", "rope_theta",
                                        "partial_rotary_factor"};
    const char *key;
    json_t *value;
    char prefix[80];

    if (!json_is_object(object))
        return pt_hf_refuse(rope->hf, place, "must be an object");
    PT_TRY(hf_check_kind(rope->hf, place, object));
    PT_TRY(hf_check_fraction(rope->hf, place, object));
    json_object_foreach((json_t *)object, key, value)
    {
        bool is_known = json_is_null(value);
        char why[160], shown[64];

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || strcmp(key, known[i]) == 0;
        snprintf(
            why, sizeof why,
            "%s is not supported; positions are not scaled (rope_type \"default\")",
            pt_show(key, shown, sizeof shown));
        if (!is_known)
            return pt_hf_refuse(rope->hf, place, why);
    }
    snprintf(prefix, sizeof prefix, "%s: ", place);
    return hf_take_theta(rope, prefix, object);
}

/* If there is an object for each layer type, only full_attention is accepted, alone or
 * beside nulls. */
static pt_status_t hf_take_object(rope_t *rope, const char *name)
{
    const json_t *object = json_object_get(rope->hf->root, name);
    const json_t *nested = json_object_get(object, "full_attention");
    const char *key;
    json_t *value;
    char place[64];

    if (!object || json_is_null(object))
        return PT_OK;
    if (!json_is_object(nested))
        return hf_take_flat(rope, name, object);
    json_object_foreach((json_t *)object, key, value)
    {
        char why[160], shown[64];

        snprintf(why, sizeof why, "%s beside full_attention is not supported",
                 pt_show(key, shown, sizeof shown));
        if (value != nested && !json_is_null(value))
            return pt_hf_refuse(rope->hf, name, why);
    }
    snprintf(place, sizeof place, "%s: full_attention", name);
    return hf_take_flat(rope, place, nested);
}

pt_status_t pt_hf_set_rope(const pt_hf_t *hf)
{
    rope_t rope = {.hf = hf, .theta = 10000};

    PT_TRY(hf_take_theta(&rope, "", hf->root));
    PT_TRY(hf_take_object(&rope, "rope_scaling"));
    PT_TRY(hf_take_object(&rope, "rope_parameters"));
    if (rope.theta <= 1)
        return pt_hf_refuse(hf, rope.key, "must be above 1; 10000 is common");
    PT_TRY(pt_hf_set_number(hf, rope.key[0] ? rope.key : "rope_theta", "rotary_base",
                            rope.theta));
    return pt_hf_set(hf, "model_type", "rotary_fraction", "1");
}
