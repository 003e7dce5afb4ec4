/* SPDX-License-Identifier: Apache-2.0 */
/* Parses INI text with inih. inih reports no line numbers and truncates long lines, so
 * this file checks the length of each line and passes the lines one by one. */
#include "src/config/private.h"
#include "penta/base/alloc.h"

#include <ctype.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

enum { INI_LINE = 197 }; /* inih's buffer of 200 less "\r\n\0" */

typedef struct ini_state {
    const char *name, *text, *home;
    size_t length, at;
    int line;
    bool checks;       /* check sections; first pass */
    bool indented;     /* the current line begins with a blank */
    bool may_continue; /* inih takes an indented line as a continuation */
    pt_config_t *config;
    pt_string_t *unknown;
    const pt_option_t *row; /* of the current value; NULL: none, or unknown */
    int first_line;
    int seen[PT_OPTION_COUNT]; /* line; 0: not yet */
    char value[PT_CONFIG_TEXT], piece[PT_CONFIG_TEXT];
    pt_status_t status;
} ini_state_t;

static const char *ini_place(const ini_state_t *state, int line, char *buffer,
                             size_t size)
{
    snprintf(buffer, size, "%s:%d", state->name, line);
    return buffer;
}

static size_t ini_line_length(const ini_state_t *state)
{
    const char *start = state->text + state->at;
    const char *end = memchr(start, '\n', state->length - state->at);

    return end ? (size_t)(end - start) : state->length - state->at;
}

static bool ini_is_comment(const char *line, size_t length)
{
    while (length > 0 && isspace((unsigned char)*line))
        line++, length--;
    return length == 0 || *line == '#' || *line == ';';
}

/* inih ignores text after the ] of a section, and sections without keys. */
static pt_status_t ini_check_section(const ini_state_t *state, const char *line,
                                     size_t length)
{
    const char *end = memchr(line, ']', length), *rest = end ? end + 1 : NULL;
    char name[64], shown[PT_SHOWN], near[64], where[PT_CONFIG_ORIGIN];
    pt_string_t all = {0};
    bool is_near;

    if (!end)
        return PT_OK; /* inih reports it */
    ini_place(state, state->line, where, sizeof where);
    while (rest < line + length && isspace((unsigned char)*rest))
        rest++;
    if (rest < line + length && *rest != ';' && *rest != '#')
        return PT_FAIL_COMMON(PT_CONFIG,
                              "%s: text after the ] of a section: put it on a new line",
                              where);
    snprintf(name, sizeof name, "%.*s", (int)(end - line - 1), line + 1);
    if (state->unknown || pt_section_help(name))
        return PT_OK;
    for (int i = 0; i < pt_section_count(); i++)
        pt_string_add(&all, "%s%s", i ? "|" : "", pt_section_name(i));
    PT_TRY(all.status);
    is_near = pt_nearest_word(all.data, name, near, sizeof near) != NULL;
    pt_free(all.data);
    return PT_FAIL_COMMON(PT_CONFIG, "%s: [%s]: no such section%s%s%s", where,
                          pt_show(name, shown, sizeof shown),
                          is_near ? "; maybe: [" : "", is_near ? near : "",
                          is_near ? "]?" : "");
}

/* Whether this line, of `length` bytes, begins a section. An indented one may be a
 * continuation. */
static bool ini_is_section(const ini_state_t *state, size_t *blanks, size_t length)
{
    const char *line = state->text + state->at;

    for (*blanks = 0; *blanks < length && isspace((unsigned char)line[*blanks]);)
        ++*blanks;
    return *blanks < length && line[*blanks] == '[' &&
           !(*blanks > 0 && state->may_continue);
}

static char *ini_next_line(char *buffer, int size, void *user)
{
    ini_state_t *state = user;
    size_t length = ini_line_length(state), kept = length, blanks = 0;
    const char *line = state->text + state->at;

    if (state->at >= state->length)
        return NULL;
    state->line++;
    if (ini_is_section(state, &blanks, length)) {
        state->may_continue = false;
        if (state->status == PT_OK && state->checks)
            state->status = ini_check_section(state, line + blanks, length - blanks);
    }
    state->indented = blanks > 0;
    if (kept > (size_t)size - 2) /* only a comment can be so long */
        kept = (size_t)size - 2;
    memcpy(buffer, line, kept);
    buffer[kept] = '\n';
    buffer[kept + 1] = '\0';
    state->at += length + (state->at + length < state->length);
    return buffer;
}

static pt_status_t ini_check_lines(ini_state_t *state)
{
    char where[PT_CONFIG_ORIGIN];

    for (state->at = 0, state->line = 1; state->at < state->length; state->line++) {
        const char *line = state->text + state->at;
        size_t length = ini_line_length(state), bare = length;

        ini_place(state, state->line, where, sizeof where);
        if (bare > 0 && line[bare - 1] == '\r')
            bare--;
        for (size_t i = 0; i < bare; i++)
            if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
                return PT_FAIL_COMMON(PT_CONFIG,
                                      "%s: byte 0x%02x at column %zu: not a text file?",
                                      where, (unsigned char)line[i], i + 1);
        if (bare > INI_LINE && !ini_is_comment(line, bare))
            return PT_FAIL_COMMON(
                PT_CONFIG,
                "%s: line of %zu bytes; at most %d: continue the value in indented "
                "lines below (lists: one element per line; other texts: quoted parts)",
                where, bare, INI_LINE);
        state->at += length + 1;
    }
    return PT_OK;
}

static int ini_ignore_value(void *user, const char *section, const char *key,
                            const char *value)
{
    ini_state_t *state = user;

    (void)section, (void)key, (void)value;
    state->may_continue = true;
    return 1;
}

/* Stores the value collected so far. */
static pt_status_t ini_flush(ini_state_t *state)
{
    const pt_option_t *row = state->row;
    char where[PT_CONFIG_ORIGIN];

    state->row = NULL;
    if (!row)
        return PT_OK;
    ini_place(state, state->first_line, where, sizeof where);
    return pt_option_store(state->config, row, state->value, where);
}

static pt_status_t ini_decode(ini_state_t *state, const char *where,
                              const char *spelling, char *out)
{
    char shown[PT_SHOWN], expanded[PT_CONFIG_TEXT];

    if (state->home) {
        PT_TRY(pt_expand_home(state->row, spelling, where, state->home, expanded));
        spelling = expanded;
    }
    if (!pt_unquote(spelling, out, PT_CONFIG_TEXT))
        return PT_FAIL_COMMON(PT_CONFIG, "%s: %s.%s=%s: " PT_BROKEN_QUOTES, where,
                              state->row->section, state->row->key,
                              pt_show(spelling, shown, sizeof shown));
    return PT_OK;
}

/* A quoted part is appended directly, an item of a list after a comma, other text after
 * a blank. */
static pt_status_t ini_add_continuation(ini_state_t *state, const char *spelling)
{
    const pt_option_t *row = state->row;
    size_t length = strlen(state->value), name = strcspn(spelling, " \t=:");
    const char *after = spelling + name + strspn(spelling + name, " \t"), *glue = "";
    char where[PT_CONFIG_ORIGIN], key[64];
    pt_text_t value;

    if (!row) /* an unknown key of an archive */
        return PT_OK;
    ini_place(state, state->line, where, sizeof where);
    snprintf(key, sizeof key, "%.*s", (int)(name < 60 ? name : 60), spelling);
    if ((row->type != PT_TYPE_TEXT && row->type != PT_TYPE_VALUE) ||
        (*after == '=' && pt_option_find(row->section, key)))
        return PT_FAIL_COMMON(PT_CONFIG,
                              "%s: an indented line continues the value of %s.%s, line "
                              "%d; begin keys in the first column",
                              where, row->section, row->key, state->first_line);
    PT_TRY(ini_decode(state, where, spelling, state->piece));
    if (length > 0 && spelling[0] != '"') {
        bool is_list = strchr(row->unit, ',') != NULL;

        glue = !is_list ? " " : pt_list_is_divided(state->value, length - 1) ? "" : ",";
    }
    if (length + strlen(glue) + strlen(state->piece) >= PT_CONFIG_TEXT)
        return PT_FAIL_COMMON(PT_CONFIG, "%s: %s.%s is too long; at most %d bytes",
                              where, row->section, row->key, PT_CONFIG_TEXT - 1);
    value = pt_text_init(state->value + length, sizeof state->value - length);
    pt_text_add(&value, "%s%s", glue, state->piece);
    return PT_OK;
}

static pt_status_t ini_begin_value(ini_state_t *state, const char *section,
                                   const char *key, const char *value)
{
    char where[PT_CONFIG_ORIGIN];
    const pt_option_t *row;

    PT_TRY(ini_flush(state));
    ini_place(state, state->line, where, sizeof where);
    if (state->unknown && !pt_option_find(section, key)) {
        pt_string_add(state->unknown, "%s.%s = %s\n", section, key, value);
        return PT_OK;
    }
    if (!*section)
        return PT_FAIL_COMMON(
            PT_CONFIG,
            "%s: %.60s stands before any [section]; in a file write key = value below "
            "[section] (section.key=value is for arguments)",
            where, key);
    PT_TRY(pt_option_lookup(section, key, where, &row));
    if (state->seen[pt_option_id(row)])
        return PT_FAIL_COMMON(PT_CONFIG, "%s: %s.%s is given twice, first in line %d",
                              where, section, key, state->seen[pt_option_id(row)]);
    state->seen[pt_option_id(row)] = state->first_line = state->line;
    state->row = row;
    return ini_decode(state, where, value, state->value);
}

static int ini_take_value(void *user, const char *section, const char *key,
                          const char *value)
{
    ini_state_t *state = user;

    if (state->status != PT_OK)
        return 0;
    if (state->indented && state->may_continue)
        state->status = ini_add_continuation(state, value);
    else
        state->status = ini_begin_value(state, section, key, value);
    state->may_continue = true;
    return state->status == PT_OK;
}

/* Runs inih once without storing values, so that the earliest wrong line is
 * reported. */
static pt_status_t ini_check_syntax(ini_state_t *state)
{
    char where[PT_CONFIG_ORIGIN];
    int line;

    state->at = 0, state->line = 0, state->may_continue = false, state->checks = true;
    line = ini_parse_stream(ini_next_line, state, ini_ignore_value, state);
    state->checks = false;
    if (line == 0 || state->status != PT_OK)
        return state->status;
    ini_place(state, line, where, sizeof where);
    return PT_FAIL_COMMON(PT_CONFIG,
                          "%s: neither [section] nor key = value nor a comment", where);
}

pt_status_t pt_ini_read(const char *name, const char *text, size_t length,
                        const char *home, pt_config_t *config, pt_string_t *unknown)
{
    ini_state_t *state;
    pt_status_t status;

    PT_TRY(PT_NEW("ini parser", 1, &state));
    state->name = name;
    state->text = text;
    state->home = home;
    state->length = length;
    state->config = config;
    state->unknown = unknown;
    PT_TRY_GOTO(free_state, ini_check_lines(state));
    PT_TRY_GOTO(free_state, ini_check_syntax(state));
    state->at = 0, state->line = 0, state->may_continue = false;
    (void)ini_parse_stream(ini_next_line, state, ini_take_value, state);
    PT_TRY_GOTO(free_state, state->status);
    PT_TRY_GOTO(free_state, ini_flush(state));
free_state:
    pt_free(state);
    return status;
}
