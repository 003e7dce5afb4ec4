/* SPDX-License-Identifier: Apache-2.0 */
/* Texts generated from the table: the resolved configuration, the template, --help. */
#include "src/config/private.h"
#include "penta/base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { ORIGIN_SHOWN = 64, HELP_WIDTH = 80, TEMPLATE_WIDTH = 98 };

/* Adds `key = value` of an option. */
static void print_add_value(const pt_config_t *config, const pt_option_t *row,
                            const char *prefix, pt_string_t *out)
{
    char key[80], value[64];

    snprintf(key, sizeof key, "%s%s", prefix, row->key);
    if (row->type == PT_TYPE_TEXT)
        pt_string_add_value(out, key, pt_option_view(config, row));
    else
        pt_string_add_value(
            out, key, pt_config_value(config, pt_option_id(row), value, sizeof value));
}

pt_status_t pt_config_to_ini(const pt_config_t *config, char **out)
{
    pt_string_t text = {0};
    const char *section = "";

    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);
        const char *origin = config->origin[i];
        char shown[4 * ORIGIN_SHOWN + 8];
        size_t length = strlen(origin), start;

        if (strcmp(section, row->section) != 0)
            pt_string_add(&text, "%s[%s]\n", i ? "\n" : "", row->section);
        section = row->section;
        start = text.length;
        print_add_value(config, row, "", &text);
        if (length > ORIGIN_SHOWN)
            origin += length - ORIGIN_SHOWN;
        pt_show(origin, shown, sizeof shown);
        /* After a long value there may be no room for the origin on the same line. */
        if (text.length - start < 90 && strlen(shown) < 90)
            pt_string_add(&text, " ; %s\n", shown);
        else
            pt_string_add(&text, "\n; %s\n", shown);
    }
    return pt_string_take(&text, out);
}

/* "steps, 1 to 100", "one of a|b", "none|full|every:K". */
static const char *print_kind_of(const pt_option_t *row, char *buffer, size_t size)
{
    char allowed[256];

    pt_option_allowed(row, allowed, sizeof allowed);
    if (row->type == PT_TYPE_INT && *row->unit)
        snprintf(buffer, size, "%s, %s", row->unit, allowed);
    else
        snprintf(buffer, size, "%s", allowed);
    return buffer;
}

pt_status_t pt_config_template(char **out)
{
    pt_string_t text = {0};
    const char *section = "";
    char sentence[1024], kind[320];
    pt_config_t *defaults;

    PT_TRY(PT_NEW("defaults", 1, &defaults));
    pt_config_defaults(defaults);
    pt_string_add(&text, "# Every option with its default, generated from the option "
                         "table. To set one, remove the # before it.\n"
                         "# A comment after a value begins with a blank and ;. A long "
                         "value continues in indented lines.\n");
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);

        if (strcmp(section, row->section) != 0)
            pt_string_add(&text, "\n# %s\n[%s]\n", pt_section_help(row->section),
                          row->section);
        section = row->section;
        snprintf(sentence, sizeof sentence, "%s (%s)", row->help,
                 print_kind_of(row, kind, sizeof kind));
        pt_string_add_wrapped(&text, "# ", sentence, TEMPLATE_WIDTH);
        print_add_value(defaults, row, "#", &text);
        pt_string_add(&text, "\n");
    }
    pt_free(defaults);
    return pt_string_take(&text, out);
}

/* Whether `name` is in the list "model,train"; an empty list contains all names. */
static bool print_is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    if (!*list)
        return true;
    while (*list) {
        size_t word = strcspn(list, ",");

        if (word == length && strncmp(list, name, length) == 0)
            return true;
        list += word;
        list += *list == ',';
    }
    return false;
}

/* Passes the lines of `text` to `put`, one by one. */
static void print_put_lines(char *text, void (*put)(void *sink, const char *line),
                            void *sink)
{
    while (*text) {
        char *end = strchr(text, '\n');

        if (end)
            *end = '\0';
        put(sink, text);
        if (!end)
            break;
        text = end + 1;
    }
}

static void print_add_help(const pt_option_t *row, pt_string_t *text)
{
    char kind[320];

    pt_string_add(text, "  %s.%s=%s", row->section, row->key, row->default_text);
    pt_string_add(text, "   (%s)\n", print_kind_of(row, kind, sizeof kind));
    pt_string_add_wrapped(text, "        ", row->help, HELP_WIDTH);
}

void pt_config_help(const char *sections, void (*put)(void *sink, const char *line),
                    void *sink)
{
    pt_string_t text = {0};
    const char *section = "";

    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);

        if (!print_is_listed(sections, row->section))
            continue;
        if (strcmp(section, row->section) != 0)
            pt_string_add(&text, "%s%s: %s\n", *section ? "\n" : "", row->section,
                          pt_section_help(row->section));
        section = row->section;
        print_add_help(row, &text);
    }
    if (text.status == PT_OK && text.data)
        print_put_lines(text.data, put, sink);
    pt_free(text.data);
}
