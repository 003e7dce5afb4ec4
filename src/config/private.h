/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — shared by the files of src/config only. */
#ifndef PENTA_CONFIG_PRIVATE_H
#define PENTA_CONFIG_PRIVATE_H

#include "penta/config/config.h"

enum { PT_SHOWN = 96, PT_CITED = 384 };

/* A growing text. The first failed allocation is kept in `status`; later additions do
 * nothing. */
typedef struct pt_string {
    char *data; /* NUL-terminated after the first addition; owned */
    size_t length, size;
    pt_status_t status;
} pt_string_t;

void pt_string_add(pt_string_t *string, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pt_string_add_bytes(pt_string_t *string, const char *bytes, size_t count);
/* Adds `text`, wrapped at blanks to lines of at most `width` bytes, each beginning with
 * `indent`. */
void pt_string_add_wrapped(pt_string_t *string, const char *indent, const char *text,
                           size_t width);
/* Passes the text to the caller, who frees *out with pt_free; NULL on failure. */
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
/* The shortest decimal text that reads as `x`. Returns `buffer`. */
const char *pt_real_text(double x, char *buffer, size_t size);
/* Copies choice `index` of "a|b|c" to `buffer`; false: there are fewer. */
bool pt_choice_word(const char *choices, int index, char *buffer, size_t size);
/* The allowed values of an option in words: "1 to 100", "one of a|b".
 * Returns `buffer`. */
const char *pt_option_allowed(const pt_option_t *row, char *buffer, size_t size);
/* Stores a decoded value after checking it against its row. `origin`: its source.
 * Fails: CONFIG. */
pt_status_t pt_option_store(pt_config_t *config, const pt_option_t *row,
                            const char *value, const char *origin);
/* Finds the row of section.key. Fails: CONFIG, suggesting the nearest name. */
pt_status_t pt_option_lookup(const char *section, const char *key, const char *origin,
                             const pt_option_t **out);
/* Finds the row of "section.key" and decodes its value.
 * dotted, value: as written.
 * origin: the source of the value.
 * home: see pt_expand_home.
 * row: [out] the row.
 * decoded: [out] the value without quotes and escapes.
 * Fails: CONFIG. */
pt_status_t pt_option_decode(const char *dotted, const char *value, const char *origin,
                             const char *home, const pt_option_t **row,
                             char decoded[PT_CONFIG_TEXT]);
/* The word of "a|b|c" that was probably meant: the nearest, else the one with the
 * longest common beginning.
 * Returns `buffer`; NULL: none is close. */
const char *pt_nearest_word(const char *words, const char *word, char *buffer,
                            size_t size);
const pt_option_t *pt_nearest_option(const char *dotted, int *distance);

/* ---- quote.c: the spelling of values ---- */
#define PT_BROKEN_QUOTES                                                               \
    "broken quotes; quote the whole value as \"...\", with "                           \
    "\\\" \\\\ \\n \\t \\xHH inside; '...' are not quotes here"
/* Decodes the spelling in a file or argument: "…" with \" \\ \n \t \xHH, or plain text.
 * False: longer than size - 1, or broken quotes. Quotes that only a shell would remove
 * are broken: 'x', "x" y, "x. */
bool pt_unquote(const char *spelling, char *out, size_t size);
/* Decodes the escapes of a text without quotes (data.separator). An invalid escape is
 * kept. */
void pt_unescape_all(const char *text, char out[PT_CONFIG_TEXT]);
/* The spelling of a value, quoted if necessary. Returns `buffer`. */
const char *pt_quote(const char *value, char *buffer, size_t size);
/* Adds `key = value` in lines that inih accepts; a long value continues in further
 * lines. */
void pt_string_add_value(pt_string_t *string, const char *key, const char *value);
/* Text for messages: non-printable bytes escaped, shortened to fit.
 * Returns `buffer`. */
const char *pt_show(const char *text, char *buffer, size_t size);

/* ---- home.c: the home directory in paths ---- */
/* Replaces a leading ~ or $HOME of a path, or of each path of a list, by the home
 * directory. Other ~NAME and $NAME are refused, because no shell expands them here.
 * row: the option; values that are not paths are copied.
 * spelling: the value as written.
 * origin: its source, for messages.
 * home: the home directory; "": HOME is not set; NULL: archived value, neither expanded
 *   nor refused.
 * out: [out] the spelling of the expanded value.
 * Fails: CONFIG. */
pt_status_t pt_expand_home(const pt_option_t *row, const char *spelling,
                           const char *origin, const char *home,
                           char out[PT_CONFIG_TEXT]);
/* The same for a path that is not an option. `what`: its description, for messages. */
pt_status_t pt_expand_path(const char *path, const char *what, const char *home,
                           char out[PT_CONFIG_TEXT]);
/* Whether byte `at` of a value would be read as such a ~ or $. It is then written as
 * \xHH in quotes. */
bool pt_home_is_meant(const char *value, size_t at);

/* ---- ini.c ---- */
/* Reads INI text into `config`.
 * name: name of the text, for messages.
 * text, length: the text, of `length` bytes.
 * home: see pt_expand_home.
 * unknown: [out] keys that this version does not know (the archive of another version);
 *   NULL: refused.
 * Fails: CONFIG. */
pt_status_t pt_ini_read(const char *name, const char *text, size_t length,
                        const char *home, pt_config_t *config, pt_string_t *unknown);

/* ---- gather.c ---- */
enum { PT_MARK = '\001' }; /* first byte of the line above a block of gathered text */

/* ---- parse.c ---- */
typedef struct pt_json_text {
    const char *text; /* NULL: not gathered */
    size_t length;
} pt_json_text_t;
/* Sets defaults and the values of every block, without presets and rules. `name`: of
 * text before the first block. json: [out] the text of config.json, inside
 * `gathered`. */
pt_status_t pt_config_assemble(const char *name, const char *gathered, pt_config_t *out,
                               pt_json_text_t *json);

/* ---- syntax.c: values with a syntax of their own ---- */
typedef struct pt_syntax {
    /* Reads `text` into `field`. False: not a valid value; `what` gives the reason, and
     * `field` is unchanged. */
    bool (*read)(const char *text, void *field, char *what, size_t size);
    /* Writes a text that reads as the same value. */
    void (*write)(const void *field, char *buffer, size_t size);
} pt_syntax_t;
extern const pt_syntax_t pt_syntax_time, pt_syntax_timeout, pt_syntax_order,
    pt_syntax_recompute, pt_syntax_scale, pt_syntax_split;

/* ---- fill.c, preset.c, hf.c ---- */
/* Whether nothing of the model is left to a preset or config.json. */
bool pt_model_is_complete(const pt_config_t *config);
bool pt_model_is_given(const pt_config_t *config, pt_option_id_t id);
pt_status_t pt_model_fill(pt_config_t *config, const pt_json_text_t *json);
pt_status_t pt_preset_load(const char *name, const char *origin, pt_config_t *out);
/* Sets model.* of `out` from the config.json that `config` names. Fails: CONFIG. */
pt_status_t pt_hf_load(const pt_config_t *config, const pt_json_text_t *json,
                       pt_config_t *out);

/* ---- list.c ---- */
/* Whether byte `at` is a comma that separates items. A comma after a backslash is part
 * of an item. */
bool pt_list_is_divided(const char *text, size_t at);
/* Checks the options that are lists of files. Fails: CONFIG. */
pt_status_t pt_config_check_lists(const pt_config_t *config);

/* ---- precision.c ---- */
/* Checks that the types of train.* and parallel.reduce_dtype can be combined.
 * Fails: CONFIG. */
pt_status_t pt_config_check_precision(const pt_config_t *config);

/* ---- check.c ---- */
pt_status_t pt_config_check(const pt_config_t *config);
/* An option with its value and origin, for messages: "train.steps=10 (tiny.ini:4)".
 * Returns `buffer`. */
const char *pt_cite(const pt_config_t *config, pt_option_id_t id, char *buffer,
                    size_t size);

#endif
