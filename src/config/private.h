/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — shared by the files of src/config only. */
#ifndef PENTA_CONFIG_PRIVATE_H
#define PENTA_CONFIG_PRIVATE_H

#include "penta/config/config.h"

enum { PT_SHOWN = 96, PT_CITED = 384 };

/* Text that grows. The first failed allocation is kept in `status`; later additions do nothing. */
typedef struct pt_string {
    char *data; /* terminated once something was added; owned */
    size_t length, size;
    pt_status_t status;
} pt_string_t;

void pt_string_add(pt_string_t *string, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pt_string_add_bytes(pt_string_t *string, const char *bytes, size_t count);
/* Words of `text`, lines of at most `width` bytes, each begun with `indent`. */
void pt_string_add_wrapped(pt_string_t *string, const char *indent, const char *text,
                           size_t width);
/* Hands the text over: *out to be freed with pt_free, NULL on failure. */
pt_status_t pt_string_take(pt_string_t *string, char **out);

/* ---- options.c ---- */
int pt_section_count(void);
const char *pt_section_name(int section);
static inline void *pt_option_field(pt_config_t *config, const pt_option_t *row)
{
    return (char *)config + row->offset;
}
static inline const void *pt_option_view(const pt_config_t *config,
                                         const pt_option_t *row)
{
    return (const char *)config + row->offset;
}
static inline pt_option_id_t pt_option_id(const pt_option_t *row)
{
    return (pt_option_id_t)(row - pt_option((pt_option_id_t)0));
}
/* Choice number `index` of "a|b|c" into buffer; false when there are fewer. */
bool pt_choice_word(const char *choices, int index, char *buffer, size_t size);
/* The row's allowed values in words: "1 to 100", "one of a|b". */
const char *pt_option_allowed(const pt_option_t *row, char *buffer, size_t size);
/* Stores a decoded value, checked by its row, as given by `origin`. */
pt_status_t pt_option_store(pt_config_t *config, const pt_option_t *row,
                            const char *value, const char *origin);
/* Finds the row of section.key or fails with the nearest name. */
pt_status_t pt_option_lookup(const char *section, const char *key, const char *origin,
                             const pt_option_t **out);
/* Both for "section.key" as written, and the value out of its quotes. `home`: see pt_expand_home. */
pt_status_t pt_option_decode(const char *dotted, const char *value, const char *origin,
                             const char *home, const pt_option_t **row,
                             char decoded[PT_CONFIG_TEXT]);
/* The word of "a|b|c" that may be meant: the nearest, or else the one that begins most alike; NULL: none. */
const char *pt_nearest_word(const char *words, const char *word, char *buffer,
                            size_t size);
const pt_option_t *pt_nearest_option(const char *dotted, int *distance);

/* ---- quote.c: how values are spelt ---- */
#define PT_BROKEN_QUOTES                                                               \
    "broken quotes; a value may stand in \"...\" as a whole, with \\\" \\\\ \\n \\t "  \
    "\\xHH "                                                                           \
    "inside; '...' are not quotes here"
/* Spelling in a file or argument -> value: "…" with \" \\ \n \t \xHH, or as it stands. False:
 * broken quotes or longer than size - 1. Quotes that a shell would know are broken, too: 'x', "x" y, "x. */
bool pt_unquote(const char *spelling, char *out, size_t size);
/* Escapes as inside quotes, without the quotes (data.separator); a wrong one stays as it is. */
void pt_unescape_all(const char *text, char out[PT_CONFIG_TEXT]);
/* Value -> spelling, quoted when it must be. Returns buffer. */
const char *pt_quote(const char *value, char *buffer, size_t size);
/* `key = value` in lines inih accepts, long ones as continuation lines. */
void pt_string_add_value(pt_string_t *string, const char *key, const char *value);
/* For messages: printable, shortened to fit. Returns buffer. */
const char *pt_show(const char *text, char *buffer, size_t size);

/* ---- home.c: paths as people write them ---- */
/* Spelling of a path, or of a list of paths, with the home directory for a ~ or $HOME that begins it; other
 * ~NAME and $NAME are refused, as no shell sees them. A spelling of anything else stays as it is. `home`:
 * "" if none is set, NULL: expand nothing, refuse nothing (what was archived). CONFIG. */
pt_status_t pt_expand_home(const pt_option_t *row, const char *spelling,
                           const char *origin, const char *home,
                           char out[PT_CONFIG_TEXT]);
/* The same for one path that is no option: `what` it is, for messages. */
pt_status_t pt_expand_path(const char *path, const char *what, const char *home,
                           char out[PT_CONFIG_TEXT]);
/* Would byte `at` of a value be taken for a ~ or $ of that kind? Then it is written as \xHH in quotes. */
bool pt_home_is_meant(const char *value, size_t at);

/* ---- ini.c ---- */
/* Reads INI text [text, text + length) called `name` into config. The archive of another version
 * may hold rows we do not have: they are added to `unknown` unless that is NULL. */
pt_status_t pt_ini_read(const char *name, const char *text, size_t length,
                        const char *home, pt_config_t *config, pt_string_t *unknown);

/* ---- gather.c ---- */
enum { PT_MARK = '\001' }; /* begins the line above a block of gathered text */

/* ---- parse.c ---- */
typedef struct pt_json_text {
    const char *text; /* NULL: none was gathered */
    size_t length;
} pt_json_text_t;
/* Defaults, then every block; no preset, no rules. `name` is for text before any block. */
pt_status_t pt_config_assemble(const char *name, const char *gathered, pt_config_t *out,
                               pt_json_text_t *json);

/* ---- order.c ---- */
/* Names of all axes of a layout, each once, with commas; false unless exactly that. */
bool pt_order_read(const char *text, pt_axis_t order[PT_CONFIG_AXES]);
void pt_order_text(const pt_axis_t order[PT_CONFIG_AXES], char *buffer, size_t size);

/* ---- time.c ---- */
/* [HH:]MM:SS, more than 0; false unless exactly that. */
bool pt_time_read(const char *text, int64_t *sec);
/* The same again, with hours where there are any. */
void pt_time_text(int64_t sec, char *buffer, size_t size);

/* ---- fill.c, preset.c, hf.c ---- */
/* Nothing of the model is left to a preset or config.json. */
bool pt_model_is_complete(const pt_config_t *config);
bool pt_model_is_given(const pt_config_t *config, pt_option_id_t id);
pt_status_t pt_model_fill(pt_config_t *config, const pt_json_text_t *json);
pt_status_t pt_preset_load(const char *name, const char *origin, pt_config_t *out);
/* Sets model.* of `out` from the config.json that `config` names. */
pt_status_t pt_hf_load(const pt_config_t *config, const pt_json_text_t *json,
                       pt_config_t *out);

/* ---- list.c ---- */
/* Is byte `at` a comma that divides items? One behind a backslash is part of a name. */
bool pt_list_is_divided(const char *text, size_t at);
/* Rules of the lists of files. */
pt_status_t pt_config_check_lists(const pt_config_t *config);

/* ---- precision.c ---- */
/* What types go together. */
pt_status_t pt_config_check_precision(const pt_config_t *config);

/* ---- check.c ---- */
pt_status_t pt_config_check(const pt_config_t *config);
/* "train.steps=10 (tiny.ini:4)"; returns buffer. */
const char *pt_cite(const pt_config_t *config, pt_option_id_t id, char *buffer,
                    size_t size);

#endif
