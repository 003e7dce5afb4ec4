/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as data: its rows, single values, and the nearest name. */
#include "src/config/private.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ROW(section_, key_, type_, default_, unit_, effect_, resume_, help_)           \
    .section = #section_, .key = #key_, .type = (type_), .default_text = (default_),   \
    .unit = (unit_), .effect = PT_EFFECT_##effect_, .resume = PT_RESUME_##resume_,     \
    .help = (help_), .offset = offsetof(pt_config_t, section_.key_),                   \
    .size = sizeof((pt_config_t *)0)->section_.key_

#define PT_SECTION(section, help)
#define PT_SECTION_END(section)
#define PT_INT(section, key, default, unit, min, max, effect, resume, help)            \
    {ROW(section, key, PT_TYPE_INT, #default, unit, effect, resume, help),             \
     .int_min = (min), .int_max = (max)},
#define PT_REAL(section, key, default, unit, min, max, effect, resume, help)           \
    {ROW(section, key, PT_TYPE_REAL, #default, unit, effect, resume, help),            \
     .real_min = (min), .real_max = (max)},
#define PT_BOOL(section, key, default, effect, resume, help)                           \
    {ROW(section, key, PT_TYPE_BOOL, #default, "", effect, resume, help)},
#define PT_CHOICE(section, key, default, list, effect, resume, help)                   \
    {ROW(section, key, PT_TYPE_CHOICE, default, "", effect, resume, help),             \
     .choices = (list)},
#define PT_VALUE(section, key, kind, default, syntax_, effect, resume, help)           \
    {ROW(section, key, PT_TYPE_VALUE, default, syntax_, effect, resume, help),         \
     .syntax = &pt_syntax_##kind},
#define PT_TEXT(section, key, default, syntax, effect, resume, help)                   \
    {ROW(section, key, PT_TYPE_TEXT, default, syntax, effect, resume, help)},

static const pt_option_t rows[PT_OPTION_COUNT] = {
#include "penta/config/options.def"
};

#undef PT_SECTION
#undef PT_INT
#undef PT_REAL
#undef PT_BOOL
#undef PT_CHOICE
#undef PT_VALUE
#undef PT_TEXT
#define PT_SECTION(section, help) {#section, help},
#define PT_INT(...)
#define PT_REAL(...)
#define PT_BOOL(...)
#define PT_CHOICE(...)
#define PT_VALUE(...)
#define PT_TEXT(...)

static const struct {
    const char *name, *help;
} sections[] = {
#include "penta/config/options.def"
};

enum { SECTIONS = (int)(sizeof sections / sizeof sections[0]) };

const pt_option_t *pt_option(pt_option_id_t id)
{
    return &rows[id];
}

const pt_option_t *pt_option_find(const char *section, const char *key)
{
    for (int i = 0; i < PT_OPTION_COUNT; i++)
        if (strcmp(rows[i].section, section) == 0 && strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

int pt_section_count(void)
{
    return SECTIONS;
}

const char *pt_section_name(int section)
{
    return sections[section].name;
}

const char *pt_section_help(const char *section)
{
    for (int i = 0; i < SECTIONS; i++)
        if (strcmp(sections[i].name, section) == 0)
            return sections[i].help;
    return NULL;
}

void pt_config_defaults(pt_config_t *out)
{
    memset(out, 0, sizeof *out);
    /* A test proves that every default is a value of its row, so this cannot fail. */
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        (void)pt_option_store(out, &rows[i], rows[i].default_text, "default");
        out->source[i] = PT_SOURCE_DEFAULT;
    }
}

bool pt_choice_word(const char *choices, int index, char *buffer, size_t size)
{
    while (index-- > 0) {
        choices = strchr(choices, '|');
        if (!choices)
            return false;
        choices++;
    }
    snprintf(buffer, size, "%.*s", (int)strcspn(choices, "|"), choices);
    return true;
}

/* Length of the common beginning. */
static int config_common_start(const char *a, const char *b)
{
    int length = 0;

    while (a[length] &&
           tolower((unsigned char)a[length]) == tolower((unsigned char)b[length]))
        length++;
    return length;
}

const char *pt_nearest_word(const char *words, const char *word, char *buffer,
                            size_t size)
{
    char candidate[64], near[64] = "", alike[64] = "";
    int best = 99, longest = 2; /* a shorter common beginning means nothing */

    for (int i = 0; pt_choice_word(words, i, candidate, sizeof candidate); i++) {
        int distance = pt_text_distance(candidate, word);
        int start = config_common_start(candidate, word);

        if (distance < best && distance < (int)strlen(candidate)) {
            best = distance;
            memcpy(near, candidate, sizeof near);
        }
        if (start > longest) {
            longest = start;
            memcpy(alike, candidate, sizeof alike);
        }
    }
    if (!pt_text_is_near(word, best))
        memcpy(near, alike, sizeof near);
    snprintf(buffer, size, "%s", near);
    return *near ? buffer : NULL;
}

const pt_option_t *pt_nearest_option(const char *dotted, int *distance)
{
    char lower[160];
    const char *dot, *key;
    const pt_option_t *nearest = NULL;

    snprintf(lower, sizeof lower, "%s", dotted);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    dotted = lower;
    dot = strrchr(dotted, '.');
    key = dot ? dot + 1 : dotted;
    *distance = 99;
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        char name[96];
        int whole, alone;

        snprintf(name, sizeof name, "%s.%s", rows[i].section, rows[i].key);
        whole = pt_text_distance(name, dotted);
        /* A right key in the wrong section is nearer than its distance. */
        alone = pt_text_distance(rows[i].key, key) * 2 + 1;
        if (alone < whole)
            whole = alone;
        if (whole < *distance) {
            *distance = whole;
            nearest = &rows[i];
        }
    }
    return pt_text_is_near(key, *distance) ? nearest : NULL;
}

pt_status_t pt_option_lookup(const char *section, const char *key, const char *origin,
                             const pt_option_t **out)
{
    char dotted[160], shown[PT_SHOWN];
    const pt_option_t *nearest;
    int distance;

    *out = pt_option_find(section, key);
    if (*out)
        return PT_OK;
    snprintf(dotted, sizeof dotted, "%.60s%s%.90s", section, *section ? "." : "", key);
    pt_show(dotted, shown, sizeof shown);
    nearest = pt_nearest_option(dotted, &distance);
    if (nearest)
        return PT_FAIL_COMMON(PT_CONFIG, "%s: %s: no such option; maybe: %s.%s?",
                              origin, shown, nearest->section, nearest->key);
    return PT_FAIL_COMMON(PT_CONFIG,
                          "%s: %s: no such option; penta train --help lists all",
                          origin, shown);
}

const char *pt_option_allowed(const pt_option_t *row, char *buffer, size_t size)
{
    switch (row->type) {
    case PT_TYPE_INT:
        snprintf(buffer, size, "%lld to %lld", (long long)row->int_min,
                 (long long)row->int_max);
        break;
    case PT_TYPE_REAL:
        snprintf(buffer, size, "%g to %g", row->real_min, row->real_max);
        break;
    case PT_TYPE_BOOL: snprintf(buffer, size, "yes or no"); break;
    case PT_TYPE_CHOICE: snprintf(buffer, size, "one of %s", row->choices); break;
    case PT_TYPE_VALUE:
    case PT_TYPE_TEXT: snprintf(buffer, size, "%s", row->unit); break;
    }
    return buffer;
}

static pt_status_t options_bad_value(const pt_option_t *row, const char *value,
                                     const char *origin, const char *what)
{
    char shown[PT_SHOWN], allowed[256];

    return PT_FAIL_COMMON(
        PT_CONFIG, "%s: %s.%s=%s: %s; allowed: %s%s", origin, row->section, row->key,
        pt_show(value, shown, sizeof shown), what,
        pt_option_allowed(row, allowed, sizeof allowed),
        strchr(value, '#') ? " (a comment after a value begins with ;)" : "");
}

static pt_status_t options_store_int(const pt_option_t *row, const char *value,
                                     const char *origin, int64_t *field)
{
    char what[64];
    int64_t n;

    if (!pt_text_int(value, &n))
        return options_bad_value(
            row, value, origin,
            "not a whole number of 64 bits, such as 1000, 1e3 or 2^10");
    if (n < row->int_min || n > row->int_max) {
        snprintf(what, sizeof what, "out of range, nearest is %lld",
                 (long long)(n < row->int_min ? row->int_min : row->int_max));
        return options_bad_value(row, value, origin, what);
    }
    *field = n;
    return PT_OK;
}

static pt_status_t options_store_real(const pt_option_t *row, const char *value,
                                      const char *origin, double *field)
{
    char what[64];
    double x;

    if (!pt_text_double(value, &x))
        return options_bad_value(row, value, origin, "not a finite number in decimal");
    if (x < row->real_min || x > row->real_max) {
        snprintf(what, sizeof what, "out of range, nearest is %g",
                 x < row->real_min ? row->real_min : row->real_max);
        return options_bad_value(row, value, origin, what);
    }
    *field = x == 0 ? 0 : x; /* -0 would be printed as another value */
    return PT_OK;
}

static pt_status_t options_store_bool(const pt_option_t *row, const char *value,
                                      const char *origin, bool *field)
{
    static const char *const words[] = {"no",  "yes", "false", "true",
                                        "off", "on",  "0",     "1"};

    for (int i = 0; i < 8; i++)
        if (strcasecmp(value, words[i]) == 0) {
            *field = i % 2;
            return PT_OK;
        }
    return options_bad_value(row, value, origin, "neither yes nor no");
}

static pt_status_t options_store_choice(const pt_option_t *row, const char *value,
                                        const char *origin, int *field)
{
    char word[64], what[96] = "not a choice";

    for (int i = 0; pt_choice_word(row->choices, i, word, sizeof word); i++)
        if (strcmp(word, value) == 0) {
            *field = i;
            return PT_OK;
        }
    if (pt_nearest_word(row->choices, value, word, sizeof word))
        snprintf(what, sizeof what, "not a choice, maybe: %s?", word);
    return options_bad_value(row, value, origin, what);
}

static pt_status_t options_store_value(const pt_option_t *row, const char *value,
                                       const char *origin, void *field)
{
    char what[160];

    if (row->syntax->read(value, field, what, sizeof what))
        return PT_OK;
    return options_bad_value(row, value, origin, what);
}

static pt_status_t options_store_text(const pt_option_t *row, const char *value,
                                      const char *origin, char *field)
{
    size_t length = strlen(value);

    if (length >= PT_CONFIG_TEXT) {
        char shown[PT_SHOWN];

        return PT_FAIL_COMMON(
            PT_CONFIG, "%s: %s.%s=%s: %zu bytes are too long; at most %d", origin,
            row->section, row->key, pt_show(value, shown, sizeof shown), length,
            PT_CONFIG_TEXT - 1);
    }
    /* All bytes are set: configurations are compared and broadcast as bytes. */
    memset(field, 0, PT_CONFIG_TEXT);
    memcpy(field, value, length);
    return PT_OK;
}

pt_status_t pt_option_store(pt_config_t *config, const pt_option_t *row,
                            const char *value, const char *origin)
{
    void *field = pt_option_field(config, row);
    char *kept = config->origin[pt_option_id(row)];
    size_t length = strlen(origin);

    switch (row->type) {
    case PT_TYPE_INT: PT_TRY(options_store_int(row, value, origin, field)); break;
    case PT_TYPE_REAL: PT_TRY(options_store_real(row, value, origin, field)); break;
    case PT_TYPE_BOOL: PT_TRY(options_store_bool(row, value, origin, field)); break;
    case PT_TYPE_CHOICE: PT_TRY(options_store_choice(row, value, origin, field)); break;
    case PT_TYPE_VALUE: PT_TRY(options_store_value(row, value, origin, field)); break;
    case PT_TYPE_TEXT: PT_TRY(options_store_text(row, value, origin, field)); break;
    }
    config->source[pt_option_id(row)] = PT_SOURCE_GIVEN;
    memset(kept, 0, PT_CONFIG_ORIGIN);
    if (length < PT_CONFIG_ORIGIN)
        memcpy(kept, origin, length);
    else /* the end of a path says more than its beginning */
        snprintf(kept, PT_CONFIG_ORIGIN, "...%s",
                 origin + length - PT_CONFIG_ORIGIN + 4);
    return PT_OK;
}

pt_status_t pt_option_decode(const char *dotted, const char *value, const char *origin,
                             const char *home, const pt_option_t **row,
                             char decoded[PT_CONFIG_TEXT])
{
    const char *dot = strchr(dotted, '.');
    char section[64] = "", shown[PT_SHOWN], spelling[PT_CONFIG_TEXT];

    if (dot)
        snprintf(section, sizeof section, "%.*s", (int)(dot - dotted), dotted);
    PT_TRY(pt_option_lookup(section, dot ? dot + 1 : dotted, origin, row));
    if (home) {
        PT_TRY(pt_expand_home(*row, value, origin, home, spelling));
        value = spelling;
    }
    PT_CHECK_COMMON(pt_unquote(value, decoded, PT_CONFIG_TEXT), PT_CONFIG,
                    "%s: %s=%s: %s", origin, dotted, pt_show(value, shown, sizeof shown),
                    strlen(value) >= PT_CONFIG_TEXT ? "too long; at most 4095 bytes"
                                                    : PT_BROKEN_QUOTES);
    return PT_OK;
}

pt_status_t pt_config_set(pt_config_t *config, const char *dotted_key,
                          const char *value, const char *origin)
{
    char decoded[PT_CONFIG_TEXT];
    const pt_option_t *row;

    PT_TRY(pt_option_decode(dotted_key, value, origin, NULL, &row, decoded));
    return pt_option_store(config, row, decoded, origin);
}

const char *pt_real_text(double x, char *buffer, size_t size)
{
    double back;

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buffer, size, "%.*g", digits, x);
        if (pt_text_double(buffer, &back) && back == x)
            break;
    }
    return buffer;
}

const char *pt_config_value(const pt_config_t *config, pt_option_id_t id, char *buffer,
                            size_t size)
{
    const pt_option_t *row = &rows[id];
    const void *field = pt_option_view(config, row);

    switch (row->type) {
    case PT_TYPE_INT:
        snprintf(buffer, size, "%lld", (long long)*(const int64_t *)field);
        break;
    case PT_TYPE_REAL: return pt_real_text(*(const double *)field, buffer, size);
    case PT_TYPE_BOOL:
        snprintf(buffer, size, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case PT_TYPE_CHOICE:
        if (!pt_choice_word(row->choices, *(const int *)field, buffer, size))
            snprintf(buffer, size, "?");
        break;
    case PT_TYPE_VALUE: row->syntax->write(field, buffer, size); break;
    case PT_TYPE_TEXT: return pt_quote(field, buffer, size);
    }
    return buffer;
}
