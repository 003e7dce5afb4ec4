/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the gathered text into a configuration, on every rank. Pure. */
#include "src/config/private.h"
#include "penta/base/alloc.h"
#include "penta/base/log.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static pt_status_t parse_read_line(char *line, bool is_environment, pt_config_t *out)
{
    char *equals = strchr(line, '='), origin[128] = "command line";

    if (!equals)
        return PT_FAIL_COMMON(PT_CONFIG, "%s: %.60s: not section.key=value",
                              is_environment ? "environment" : origin, line);
    *equals = '\0';
    if (is_environment) {
        snprintf(origin, sizeof origin, "environment PENTA_%.80s", line);
        for (char *c = strchr(origin, '_'); *c; c++)
            *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    }
    return pt_config_set(out, line, equals + 1, origin);
}

/* Parses lines section.key=value. */
static pt_status_t parse_read_lines(const char *text, size_t length,
                                    bool is_environment, pt_config_t *out)
{
    const char *end = text + length;
    pt_status_t status = PT_OK;
    char *line;

    while (text < end && status == PT_OK) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t bytes = (size_t)((stop ? stop : end) - text);

        if (bytes > 0) {
            PT_TRY(PT_NEW("line", bytes + 1, &line));
            memcpy(line, text, bytes);
            status = parse_read_line(line, is_environment, out);
            pt_free(line);
        }
        text += bytes + 1;
    }
    return status;
}

/* Parses one block. `head`: its first line, after the mark. */
static pt_status_t parse_read_block(const char *head, const char *end, const char *home,
                                    pt_config_t *out)
{
    const char *stop = memchr(head, '\n', (size_t)(end - head)), *text;
    size_t width = (size_t)((stop ? stop : end) - head);
    char name[PT_CONFIG_TEXT];
    bool is_environment;

    text = stop ? stop + 1 : end;
    snprintf(name, sizeof name, "%.*s",
             (int)(width < sizeof name ? width : sizeof name - 1), head);
    if (strncmp(name, "file ", 5) == 0)
        return pt_ini_read(name + 5, text, (size_t)(end - text), home, out, NULL);
    is_environment = strcmp(name, "environment") == 0;
    if (is_environment || strcmp(name, "command line") == 0)
        return parse_read_lines(text, (size_t)(end - text), is_environment, out);
    return PT_FAIL_COMMON(PT_CONFIG,
                          "configuration: unknown block in the gathered text");
}

pt_status_t pt_config_assemble(const char *name, const char *gathered, pt_config_t *out,
                               pt_json_text_t *json)
{
    static const char json_head[] = "json\n", home_head[] = "home ";
    char home[PT_CONFIG_TEXT] = "";
    const char *all = gathered + strlen(gathered);
    size_t plain = strcspn(gathered, "\001");

    *json = (pt_json_text_t){0};
    pt_config_defaults(out);
    PT_TRY(pt_ini_read(name, gathered, plain, NULL, out, NULL));
    for (const char *mark = gathered + plain; *mark;) {
        const char *head = mark + 1, *end = strchr(head, PT_MARK);

        if (strncmp(head, json_head, sizeof json_head - 1) == 0) {
            json->text = head + sizeof json_head - 1;
            json->length = (size_t)(all - json->text);
            break;
        }
        end = end ? end : all;
        if (strncmp(head, home_head, sizeof home_head - 1) == 0)
            snprintf(home, sizeof home, "%.*s",
                     (int)strcspn(head + sizeof home_head - 1, "\n\001"),
                     head + sizeof home_head - 1);
        else
            PT_TRY(parse_read_block(head, end, home, out));
        mark = end;
    }
    return PT_OK;
}

pt_status_t pt_config_parse(const char *gathered, pt_config_t *out)
{
    return pt_config_parse_named("configuration", gathered, out);
}

pt_status_t pt_config_parse_named(const char *name, const char *gathered,
                                  pt_config_t *out)
{
    pt_json_text_t json;

    PT_TRY(pt_config_assemble(name, gathered, out, &json));
    PT_TRY(pt_model_fill(out, &json));
    return pt_config_check(out);
}

pt_status_t pt_config_finish(pt_config_t *config)
{
    pt_json_text_t json = {0};
    pt_status_t status = PT_OK;
    char *text = NULL;

    if (config->model.config_json[0] && !pt_model_is_complete(config)) {
        PT_TRY(pt_file_read(config->model.config_json, "model.config_json", 1 << 22,
                            &text, &json.length));
        json.text = text;
    }
    PT_TRY_GOTO(free_text, pt_model_fill(config, &json));
    PT_TRY_GOTO(free_text, pt_config_check(config));
free_text:
    pt_free(text);
    return status;
}
