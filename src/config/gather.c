/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers file, environment and arguments into one text, on rank 0. The text has
 * blocks, in the order of precedence:
 *
 *   \001home DIRECTORY      the home directory that ~ means in the file
 *   \001file NAME           the bytes of the file
 *   \001environment         lines section.key=value
 *   \001command line        lines section.key=value
 *   \001json                the bytes of config.json, to the end of the text
 *
 * Text before the first block is INI text, so an archived configuration is a gathered
 * text as well. */
#include "src/config/private.h"
#include "penta/base/alloc.h"
#include "penta/base/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_LIMIT = 1 << 20, JSON_LIMIT = 1 << 22 };

extern char **environ;

/* "": HOME is not set, or cannot be part of the text. */
static const char *gather_home_directory(void)
{
    const char *home = getenv("HOME");

    return home && strlen(home) < PT_CONFIG_TEXT && !strpbrk(home, "\n\001") ? home
                                                                             : "";
}

/* A file truncated to nothing, for example, would silently train with the defaults. */
static bool config_says_nothing(const char *text)
{
    text += strspn(text, "\xef\xbb\xbf \t\r\n");
    while (*text == '#' || *text == ';') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    return *text == '\0';
}

static pt_status_t gather_add_file(pt_string_t *out, const char *written)
{
    size_t length;
    char *text, *mark, path[PT_CONFIG_TEXT], shown[PT_SHOWN];
    int line = 1;

    PT_TRY(pt_expand_path(written, "configuration file", gather_home_directory(), path));

    if (strlen(path) >= PT_CONFIG_TEXT || strpbrk(path, "\n\001"))
        return PT_FAIL_COMMON(PT_CONFIG,
                              "the name of the configuration file is too long or "
                              "holds control characters");
    PT_TRY(pt_file_read(path, "configuration file", FILE_LIMIT, &text, &length));
    mark = strchr(text, PT_MARK); /* it would end the block */
    if (mark) {
        for (const char *c = text; c < mark; c++)
            line += *c == '\n';
        pt_free(text);
        return PT_FAIL_COMMON(PT_CONFIG, "%s:%d: byte 0x01: not a text file?", path,
                              line);
    }
    if (config_says_nothing(text))
        pt_log_root(PT_LOG_WARN, "configuration file %s: it sets no option",
                    pt_show(path, shown, sizeof shown));
    pt_string_add(out, "%chome %s\n", PT_MARK, gather_home_directory());
    pt_string_add(out, "%cfile %s\n", PT_MARK, path);
    pt_string_add_bytes(out, text, length);
    pt_string_add(out, "\n");
    pt_free(text);
    return PT_OK;
}

/* Adds one line. Quoting keeps line ends out of it. */
static pt_status_t gather_add_value(pt_string_t *out, const char *origin,
                                    const char *dotted, const char *value)
{
    char decoded[PT_CONFIG_TEXT], *quoted;
    const pt_option_t *row;

    PT_TRY(pt_option_decode(dotted, value, origin, gather_home_directory(), &row,
                            decoded));
    PT_TRY(PT_NEW("value", 4 * PT_CONFIG_TEXT, &quoted));
    pt_string_add(out, "%s.%s=%s\n", row->section, row->key,
                  pt_quote(decoded, quoted, 4 * PT_CONFIG_TEXT));
    pt_free(quoted);
    return PT_OK;
}

static void gather_variable_name(const pt_option_t *row, char *buffer, size_t size)
{
    snprintf(buffer, size, "PENTA_%s_%s", row->section, row->key);
    for (char *c = buffer; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

/* The option that a variable name means: "train.lr". False: it has no section or no
 * key. */
static bool gather_option_of(const char *variable, size_t length, char *dotted,
                             size_t size)
{
    char *cut;

    if (length >= size)
        return false;
    snprintf(dotted, size, "%.*s", (int)length - 6, variable + 6);
    for (char *c = dotted; *c; c++)
        *c = *c == '.' || *c == '-' ? '_' : (char)tolower((unsigned char)*c);
    cut = strchr(dotted, '_');
    if (cut)
        *cut = '.';
    return cut != NULL;
}

/* Variables that begin like options but mean something else: to main, to scripts and
 * tests, or to a site that installs Penta as a module. PENTA_TEST_* are also
 * ignored. */
static const char *const other_variables[] = {
    "PENTA_FAULT",   "PENTA_HOME", "PENTA_SRCDIR", "PENTA_BUILDDIR",
    "PENTA_VERSION", "PENTA_PERF", "PENTA_TORCH",  "PENTA_ROOT",
    "PENTA_PREFIX",  "PENTA_BASE", "PENTA_BIN",    "PENTA_LIB",
};
enum { OTHER_VARIABLES = sizeof other_variables / sizeof other_variables[0] };

/* Adds a variable with our prefix that has no effect: "PENTA_LR (maybe:
 * PENTA_TRAIN_LR?)". */
static void gather_add_stranger(pt_text_t *strangers, const char *variable,
                                size_t length)
{
    char name[96] = "", upper[96], meant[96] = "", shown[PT_SHOWN];
    int distance, least = 99;
    const pt_option_t *option;

    snprintf(name, sizeof name, "%.*s", (int)length, variable);
    for (size_t i = 0; i < sizeof name; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    for (int i = 0; i < OTHER_VARIABLES; i++) {
        if (strcmp(name, other_variables[i]) == 0)
            return;
        distance = pt_text_distance(upper, other_variables[i]);
        if (distance < least && pt_text_is_near(name + 6, distance)) {
            least = distance;
            snprintf(meant, sizeof meant, "%s", other_variables[i]);
        }
    }
    option = pt_nearest_option(name + 6, &distance); /* a key without section */
    if (option && distance <= least)
        gather_variable_name(option, meant, sizeof meant);
    pt_text_add(strangers, "%s%s%s%s%s", strangers->length ? ", " : "",
                pt_show(name, shown, sizeof shown), *meant ? " (maybe: " : "", meant,
                *meant ? "?)" : "");
}

static bool gather_is_section(const char *name, size_t length)
{
    for (int i = 0; i < pt_section_count(); i++)
        if (strlen(pt_section_name(i)) == length &&
            strncmp(pt_section_name(i), name, length) == 0)
            return true;
    return false;
}

/* Refuses variables that look like an option but match none. */
static pt_status_t gather_check_variable(const char *variable, pt_text_t *strangers)
{
    char dotted[96], name[96];
    size_t length = strcspn(variable, "="), section;
    const pt_option_t *nearest, *key;
    int distance, distance_of_key;
    bool is_ours;

    if (length <= 6 || strncasecmp(variable, "PENTA", 5) != 0 ||
        !strchr("_.-", variable[5]) || strncmp(variable, "PENTA_TEST_", 11) == 0)
        return PT_OK;
    if (!gather_option_of(variable, length, dotted, sizeof dotted)) {
        gather_add_stranger(strangers, variable, length);
        return PT_OK;
    }
    section = strcspn(dotted, ".");
    is_ours = gather_is_section(dotted, section);
    nearest = pt_nearest_option(dotted, &distance);
    dotted[section] = '_'; /* a key without section: global_batch */
    key = pt_nearest_option(dotted, &distance_of_key);
    if (key && !is_ours) {
        nearest = key;
        distance = distance_of_key;
    }
    if (nearest) {
        gather_variable_name(nearest, name, sizeof name);
        if (strlen(name) == length && strncmp(name, variable, length) == 0)
            return PT_OK;
    }
    if (!is_ours && (!nearest || distance > 2)) {
        gather_add_stranger(strangers, variable, length);
        return PT_OK;
    }
    if (!nearest)
        return PT_FAIL_COMMON(PT_CONFIG,
                              "environment: %.*s: no such option; penta "
                              "train --help lists all",
                              (int)length, variable);
    return PT_FAIL_COMMON(PT_CONFIG, "environment: %.*s: no such option; maybe: %s?",
                          (int)length, variable, name);
}

static pt_status_t gather_add_environment(pt_string_t *out)
{
    char name[96], origin[128], dotted[96], unread[384];
    pt_text_t strangers = pt_text_init(unread, sizeof unread);

    pt_string_add(out, "%cenvironment\n", PT_MARK);
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);
        const char *value;

        gather_variable_name(row, name, sizeof name);
        value = getenv(name);
        if (!value || !*value)
            continue;
        snprintf(origin, sizeof origin, "environment %s", name);
        snprintf(dotted, sizeof dotted, "%s.%s", row->section, row->key);
        PT_TRY(gather_add_value(out, origin, dotted, value));
    }
    for (char **variable = environ; variable && *variable; variable++)
        PT_TRY(gather_check_variable(*variable, &strangers));
    if (strangers.length)
        pt_log_root(PT_LOG_WARN, "environment: variables without effect: %s%s", unread,
                    strangers.truncated ? " ..." : "");
    return PT_OK;
}

/* Refuses a configuration file given by name: "conf=tiny.ini", "--config=tiny.ini". */
static pt_status_t config_check_named_file(const char *argument)
{
    static const char words[] = "conf|config|configuration|config_file|cfg|file|ini";
    const char *name = argument + strspn(argument, "-"), *value = strchr(name, '=');
    char word[64], shown[PT_SHOWN];

    for (int i = 0; value && pt_choice_word(words, i, word, sizeof word); i++)
        if (strlen(word) == (size_t)(value - name) &&
            strncasecmp(word, name, strlen(word)) == 0)
            return PT_FAIL_COMMON(PT_CONFIG,
                                  "command line: %s: give the configuration file as "
                                  "the first argument, without a key: %s",
                                  pt_show(argument, shown, sizeof shown), value + 1);
    return PT_OK;
}

static pt_status_t gather_add_argument(pt_string_t *out, const char *argument)
{
    const char *equals = strchr(argument, '='), *value;
    char dotted[128], shown[PT_SHOWN];
    size_t length;

    pt_show(argument, shown, sizeof shown);
    PT_TRY(config_check_named_file(argument));
    if (argument[0] == '-')
        return PT_FAIL_COMMON(PT_CONFIG,
                              "command line: %s: no such flag; options are written "
                              "section.key=value, such as train.steps=100",
                              shown);
    if (!equals || equals == argument)
        return PT_FAIL_COMMON(PT_CONFIG,
                              "command line: %s: not section.key=value (a "
                              "configuration file may only be the first argument)",
                              shown);
    length = (size_t)(equals - argument);
    while (length > 0 && argument[length - 1] == ' ')
        length--;
    if (length >= sizeof dotted)
        return PT_FAIL_COMMON(PT_CONFIG, "command line: %s: no such option", shown);
    snprintf(dotted, sizeof dotted, "%.*s", (int)length, argument);
    value = equals + 1 + strspn(equals + 1, " ");
    return gather_add_value(out, "command line", dotted, value);
}

/* Adds config.json, unless every value it could set is given elsewhere:
 * config.resolved.ini alone is enough to repeat a run. */
static pt_status_t gather_add_json(pt_string_t *out)
{
    pt_json_text_t none;
    pt_config_t *config;
    pt_status_t status;
    size_t length;
    char *text = NULL;

    PT_TRY(out->status);
    PT_TRY(PT_NEW("configuration", 1, &config));
    PT_TRY_GOTO(free_config,
                pt_config_assemble("configuration", out->data, config, &none));
    if (!config->model.config_json[0] || pt_model_is_complete(config))
        goto free_config;
    PT_TRY_GOTO(free_config, pt_file_read(config->model.config_json, "model.config_json",
                                          JSON_LIMIT, &text, &length));
    pt_string_add(out, "%cjson\n", PT_MARK);
    pt_string_add_bytes(out, text, length);
    pt_free(text);
free_config:
    pt_free(config);
    return status;
}

pt_status_t pt_config_gather(const char *file, int argc, char *const argv[], char **out)
{
    pt_string_t text = {0};
    pt_status_t status;

    *out = NULL;
    if (file && *file)
        PT_TRY_GOTO(free_text, gather_add_file(&text, file));
    PT_TRY_GOTO(free_text, gather_add_environment(&text));
    pt_string_add(&text, "%ccommand line\n", PT_MARK);
    for (int i = 0; i < argc; i++)
        PT_TRY_GOTO(free_text, gather_add_argument(&text, argv[i]));
    PT_TRY_GOTO(free_text, gather_add_json(&text));
    return pt_string_take(&text, out);
free_text:
    pt_free(text.data);
    return status;
}
