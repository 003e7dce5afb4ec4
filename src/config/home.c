/* SPDX-License-Identifier: Apache-2.0 */
/* Expands ~ and $HOME at the beginning of paths in the file, the environment and the
 * arguments, where no shell does. */
#include "src/config/private.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct expansion {
    const char *origin, *option, *home;
    const char *spelling;
    bool is_list, is_named, is_quoted; /* is_named: items are NAME=FILE */
    pt_text_t out;
} expansion_t;

static pt_status_t home_refuse(const expansion_t *x, const char *why)
{
    char shown[PT_SHOWN];

    return PT_FAIL_COMMON(PT_CONFIG, "%s: %s%s%s: %s", x->origin, x->option,
                          *x->option ? "=" : "",
                          pt_show(x->spelling, shown, sizeof shown), why);
}

/* Bytes of the word for the home directory that `text` begins with; 0: none. */
static size_t home_word(const char *text)
{
    static const char *const words[] = {"~", "$HOME", "${HOME}"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);

        if (strncmp(text, words[i], length) == 0 &&
            (text[length] == '\0' || strchr("/,\" \t", text[length])))
            return length;
    }
    return 0;
}

static bool home_is_variable(const char *text)
{
    return text[0] == '$' &&
           (isalpha((unsigned char)text[1]) || text[1] == '_' || text[1] == '{');
}

/* Adds the home directory, escaped so that decoding gives it back unchanged. */
static pt_status_t home_add(expansion_t *x)
{
    if (!x->home[0])
        return home_refuse(x, "HOME is not set: write the directory itself");
    for (const char *c = x->home; *c; c++) {
        if (x->is_list && *c == ',')
            pt_text_add(&x->out, x->is_quoted ? "\\\\" : "\\");
        else if (x->is_quoted && (*c == '"' || *c == '\\'))
            pt_text_add(&x->out, "\\");
        pt_text_add(&x->out, "%c", *c);
    }
    return PT_OK;
}

/* Expands the beginning of a path; moves *text behind what was expanded. */
static pt_status_t home_take_beginning(expansion_t *x, const char **text)
{
    size_t length = home_word(*text);

    if (length > 0) {
        *text += length;
        return home_add(x);
    }
    if (**text == '~')
        return home_refuse(x, "home directories of other users are not expanded: write "
                              "the directory itself; a file of that name is ./~...");
    return PT_OK;
}

static pt_status_t home_expand(expansion_t *x)
{
    const char *text = x->spelling;
    bool begins = true;

    x->is_quoted = *text == '"';
    if (x->is_quoted)
        pt_text_add(&x->out, "%c", *text++);
    while (*text) {
        if (begins && *text != ' ' && *text != '\t') {
            begins = false;
            PT_TRY(home_take_beginning(x, &text));
            continue;
        }
        if (home_is_variable(text))
            return home_refuse(
                x, "shell variables are not expanded, except $HOME at the beginning: "
                   "write the value itself; a $ in a name is \"\\x24\", in quotes");
        if (*text == '\\' && text[1]) { /* in a list, or in quotes */
            pt_text_add(&x->out, "%.2s", text);
            text += 2;
            continue;
        }
        begins =
            begins || (x->is_list && *text == ',') || (x->is_named && *text == '=');
        pt_text_add(&x->out, "%c", *text++);
    }
    return x->out.truncated ? home_refuse(x, "too long") : PT_OK;
}

pt_status_t pt_expand_home(const pt_option_t *row, const char *spelling,
                           const char *origin, const char *home,
                           char out[PT_CONFIG_TEXT])
{
    char option[96];
    expansion_t x = {
        .origin = origin, .option = option, .home = home, .spelling = spelling};
    bool is_path = row->type == PT_TYPE_TEXT &&
                   (strstr(row->unit, "FILE") || strstr(row->unit, "DIR"));

    x.out = pt_text_init(out, PT_CONFIG_TEXT);
    snprintf(option, sizeof option, "%s.%s", row->section, row->key);
    if (home && is_path) {
        x.is_list = strchr(row->unit, ',') != NULL;
        x.is_named = strncmp(row->unit, "NAME=", 5) == 0;
        return home_expand(&x);
    }
    pt_text_add(&x.out, "%s", spelling);
    return x.out.truncated ? home_refuse(&x, "too long") : PT_OK;
}

pt_status_t pt_expand_path(const char *path, const char *what, const char *home,
                           char out[PT_CONFIG_TEXT])
{
    expansion_t x = {.origin = what, .option = "", .home = home, .spelling = path};
    const char *rest = path;

    x.out = pt_text_init(out, PT_CONFIG_TEXT);
    PT_TRY(home_take_beginning(&x, &rest));
    pt_text_add(&x.out, "%s", rest);
    return x.out.truncated ? home_refuse(&x, "too long") : PT_OK;
}

bool pt_home_is_meant(const char *value, size_t at)
{
    if (value[at] == '~')
        return at == 0 || strchr(",= \t", value[at - 1]) != NULL;
    return home_is_variable(value + at);
}
