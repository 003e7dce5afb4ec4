/* Every rank's part: gathered text to configuration. Pure. */
#include "src/config/private.h"
#include "penta/alloc.h"
#include "penta/log.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static pt_status_t read_line(char *line, bool is_environment, pt_config_t *out)
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

/* Lines section.key=value. */
static pt_status_t read_lines(const char *text, size_t length, bool is_environment,
                              pt_config_t *out)
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
            status = read_line(line, is_environment, out);
            pt_free(line);
        }
        text += bytes + 1;
    }
    return status;
}

/* One block: `head` is its first line after the mark. */
static pt_status_t read_block(const char *head, const char *end, pt_config_t *out)
{
    const char *stop = memchr(head, '\n', (size_t)(end - head)), *text;
    size_t width = (size_t)((stop ? stop : end) - head);
    char name[PT_CONFIG_TEXT];
    bool is_environment;

    text = stop ? stop + 1 : end;
    snprintf(name, sizeof name, "%.*s",
             (int)(width < sizeof name ? width : sizeof name - 1), head);
    if (strncmp(name, "file ", 5) == 0)
        return pt_ini_read(name + 5, text, (size_t)(end - text), out, NULL);
    is_environment = strcmp(name, "environment") == 0;
    if (is_environment || strcmp(name, "command line") == 0)
        return read_lines(text, (size_t)(end - text), is_environment, out);
    return PT_FAIL_COMMON(PT_CONFIG,
                          "configuration: unknown block in the gathered text");
}

pt_status_t pt_config_assemble(const char *gathered, pt_config_t *out,
                               pt_json_text_t *json)
{
    static const char json_head[] = "json\n";
    const char *all = gathered + strlen(gathered);
    size_t plain = strcspn(gathered, "\001");

    *json = (pt_json_text_t){0};
    pt_config_defaults(out);
    PT_TRY(pt_ini_read("configuration", gathered, plain, out, NULL));
    for (const char *mark = gathered + plain; *mark;) {
        const char *head = mark + 1, *end = strchr(head, PT_MARK);

        if (strncmp(head, json_head, sizeof json_head - 1) == 0) {
            json->text = head + sizeof json_head - 1;
            json->length = (size_t)(all - json->text);
            break;
        }
        end = end ? end : all;
        PT_TRY(read_block(head, end, out));
        mark = end;
    }
    return PT_OK;
}

pt_status_t pt_config_parse(const char *gathered, pt_config_t *out)
{
    pt_json_text_t json;

    PT_TRY(pt_config_assemble(gathered, out, &json));
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

/* ---- Resume ---- */

static void list_difference(const pt_config_t *now, const pt_config_t *then,
                            const pt_option_t *row, pt_string_t *out)
{
    pt_option_id_t id = pt_option_id(row);
    char *buffer, shown_now[PT_SHOWN], shown_then[PT_SHOWN];

    if (out->status == PT_OK)
        out->status = PT_NEW("value", 4 * PT_CONFIG_TEXT, &buffer);
    if (out->status != PT_OK)
        return;
    pt_config_value(now, id, buffer, 4 * PT_CONFIG_TEXT);
    pt_show(buffer, shown_now, sizeof shown_now);
    pt_config_value(then, id, buffer, 4 * PT_CONFIG_TEXT);
    pt_show(buffer, shown_then, sizeof shown_then);
    pt_string_add(out, "\n  %s.%s: now %s (%s), checkpoint %s", row->section, row->key,
                  shown_now[0] ? shown_now : "empty", now->origin[id],
                  shown_then[0] ? shown_then : "empty");
    pt_free(buffer);
}

static bool is_same(const pt_config_t *a, const pt_config_t *b, const pt_option_t *row)
{
    static const size_t size[] = {[PT_TYPE_INT] = sizeof(int64_t),
                                  [PT_TYPE_REAL] = sizeof(double),
                                  [PT_TYPE_BOOL] = sizeof(bool),
                                  [PT_TYPE_CHOICE] = sizeof(int),
                                  [PT_TYPE_TEXT] = PT_CONFIG_TEXT};

    return memcmp(pt_option_view(a, row), pt_option_view(b, row), size[row->type]) == 0;
}

/* What the archive has and this version has not goes to `unknown`. */
static pt_status_t read_archive(const char *ini, pt_config_t **out, pt_string_t *unknown)
{
    PT_TRY(PT_NEW("archived configuration", 1, out));
    pt_config_defaults(*out);
    return pt_ini_read("configuration of the checkpoint", ini, strlen(ini), *out,
                       unknown);
}

pt_status_t pt_config_check_resume(const pt_config_t *config, const char *archived_ini)
{
    pt_string_t unknown = {0}, different = {0};
    pt_config_t *then = NULL;
    pt_status_t status;

    PT_TRY_GOTO(free_all, read_archive(archived_ini, &then, &unknown));
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);

        if (row->resume == PT_RESUME_FIXED && !is_same(config, then, row))
            list_difference(config, then, row, &different);
    }
    /* Files may move, but not come or go. */
    if (!config->data.mask[0] != !then->data.mask[0])
        list_difference(config, then, pt_option(PT_OPTION_data_mask), &different);
    PT_TRY_GOTO(free_all, different.status);
    PT_TRY_GOTO(free_all, unknown.status);
    if (unknown.length > 0)
        pt_string_add(&different, "\n  options this version does not have: %s",
                      unknown.data);
    if (different.length > 0)
        status = PT_FAIL_COMMON(PT_CONFIG,
                                "the checkpoint was made with other options that must "
                                "stay the same:%s\nresume with "
                                "the values of the checkpoint, or start anew with "
                                "checkpoint.resume=none in another "
                                "run.dir",
                                different.data);
free_all:
    pt_free(different.data);
    pt_free(unknown.data);
    pt_free(then);
    return status;
}

/* Of the model, but no matter of its weights. */
static bool is_of_training(pt_option_id_t id)
{
    return id == PT_OPTION_model_preset || id == PT_OPTION_model_config_json ||
           id == PT_OPTION_model_dropout || id == PT_OPTION_model_init_std;
}

/* People change these on purpose, to train on with longer sequences for one. */
static bool may_differ(pt_option_id_t id)
{
    return id == PT_OPTION_model_max_positions || id == PT_OPTION_model_norm_eps ||
           id == PT_OPTION_model_rotary_base;
}

pt_status_t pt_config_check_model(const pt_config_t *config, const char *archived_ini,
                                  const char *path)
{
    pt_string_t unknown = {0}, wrong = {0}, other = {0};
    pt_config_t *then = NULL;
    pt_status_t status;

    PT_TRY_GOTO(free_all, read_archive(archived_ini, &then, &unknown));
    /* Of an archive that says nothing of its model, names and shapes must do. */
    for (int i = 0; i < PT_OPTION_COUNT && pt_model_is_complete(then); i++) {
        pt_option_id_t id = (pt_option_id_t)i;
        const pt_option_t *row = pt_option(id);

        if (strcmp(row->section, "model") == 0 && !is_of_training(id) &&
            !is_same(config, then, row))
            list_difference(config, then, row, may_differ(id) ? &other : &wrong);
    }
    PT_TRY_GOTO(free_all, wrong.status);
    PT_TRY_GOTO(free_all, other.status);
    if (wrong.length > 0)
        status = PT_FAIL_COMMON(PT_CONFIG,
                                "%s holds weights of another model:%s\ngive the model "
                                "of the checkpoint (penta inspect FILE --config)",
                                path, wrong.data);
    else if (other.length > 0)
        pt_log_root(PT_LOG_WARN, "the weights of %s were trained with other values:%s",
                    path, other.data);
free_all:
    pt_free(other.data);
    pt_free(wrong.data);
    pt_free(unknown.data);
    pt_free(then);
    return status;
}
