/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are lists: "A,B,C". A comma in an item is written \, and a backslash
 * before a comma \\. */
#include "src/config/private.h"

#include <stdio.h>
#include <string.h>

#define BLANKS           " \t\r\n"
#define NAME_LETTERS     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
#define ID(section, key) PT_OPTION_##section##_##key

const char *pt_config_origin(const pt_config_t *config, pt_option_id_t id, char *buffer,
                             size_t size)
{
    const pt_option_t *row = pt_option(id);

    snprintf(buffer, size, "%s.%s (%s)", row->section, row->key, config->origin[id]);
    return buffer;
}

/* The end of the item that begins at `text`: a separating comma, or the end of the
 * text. */
static const char *list_item_end(const char *text)
{
    for (; *text && *text != ','; text++)
        text += *text == '\\' && (text[1] == ',' || text[1] == '\\');
    return text;
}

bool pt_list_is_divided(const char *text, size_t at)
{
    size_t slashes = 0;

    while (slashes < at && text[at - slashes - 1] == '\\')
        slashes++;
    return text[at] == ',' && slashes % 2 == 0;
}

int pt_config_items(const pt_config_t *config, pt_option_id_t id)
{
    const char *text = pt_option_view(config, pt_option(id));
    int count = text[strspn(text, BLANKS)] != '\0';

    for (text = list_item_end(text); count > 0 && *text; text = list_item_end(text + 1))
        count++;
    return count;
}

static void list_trim_end(char *text)
{
    size_t length = strlen(text);

    while (length > 0 && strchr(BLANKS, text[length - 1]))
        text[--length] = '\0';
}

void pt_config_item(const pt_config_t *config, pt_option_id_t id, int index,
                    char buffer[PT_CONFIG_TEXT])
{
    const char *text = pt_option_view(config, pt_option(id)), *end;
    size_t length = 0;

    for (; index > 0; index--) {
        text = list_item_end(text);
        text += *text == ',';
    }
    text += strspn(text, BLANKS);
    for (end = list_item_end(text); text < end; text++) {
        text += *text == '\\' && (text[1] == ',' || text[1] == '\\');
        buffer[length++] = *text;
    }
    buffer[length] = '\0';
    list_trim_end(buffer);
}

const char *pt_config_mask(const pt_config_t *config, pt_option_id_t id, int index,
                           char buffer[PT_CONFIG_TEXT])
{
    pt_config_item(config, id, index, buffer);
    return strcmp(buffer, "-") == 0 ? NULL : buffer;
}

const char *pt_config_validation(const pt_config_t *config, int index,
                                 char buffer[PT_CONFIG_TEXT])
{
    char *equals;

    pt_config_item(config, ID(data, validation), index, buffer);
    equals = strchr(buffer, '=');
    if (!equals)
        return NULL;
    *equals++ = '\0';
    list_trim_end(buffer);
    return equals + strspn(equals, BLANKS);
}

static pt_status_t list_check_items(const pt_config_t *config, pt_option_id_t id)
{
    char item[PT_CONFIG_TEXT], cited[PT_CITED];
    int count = pt_config_items(config, id);

    for (int i = 0; i < count; i++) {
        pt_config_item(config, id, i, item);
        PT_CHECK_COMMON(item[0] != '\0', PT_CONFIG,
                        "%s: name %d of %d between the commas is empty",
                        pt_cite(config, id, cited, sizeof cited), i + 1, count);
    }
    return PT_OK;
}

/* Each file needs a mask. */
static pt_status_t list_check_masks(const pt_config_t *config, pt_option_id_t masks,
                                    pt_option_id_t files)
{
    int count = pt_config_items(config, masks), wanted = pt_config_items(config, files);
    char cited[2][PT_CITED];

    PT_TRY(list_check_items(config, masks));
    PT_CHECK_COMMON(count == 0 || count == wanted, PT_CONFIG,
                    "%s names %d, but %s names %d: give each file its mask, or - where "
                    "every token counts",
                    pt_cite(config, masks, cited[0], sizeof cited[0]), count,
                    pt_cite(config, files, cited[1], sizeof cited[1]), wanted);
    return PT_OK;
}

static pt_status_t list_check_validation(const pt_config_t *config, int index)
{
    char name[PT_CONFIG_TEXT], other[PT_CONFIG_TEXT], cited[PT_CITED];
    const char *file = pt_config_validation(config, index, name);
    size_t length = strlen(name);

    pt_cite(config, ID(data, validation), cited, sizeof cited);
    PT_CHECK_COMMON(file && *file, PT_CONFIG,
                    "%s: item %d must be NAME=FILE, a name for the reports and the "
                    "file to evaluate",
                    cited, index + 1);
    PT_CHECK_COMMON(length > 0 && length < PT_VALIDATION_NAME &&
                        strspn(name, NAME_LETTERS) == length,
                    PT_CONFIG,
                    "%s: name %d must be 1 to %d letters, digits, or any of _ - .",
                    cited, index + 1, PT_VALIDATION_NAME - 1);
    for (int i = 0; i < index; i++) {
        (void)pt_config_validation(config, i, other);
        PT_CHECK_COMMON(strcmp(name, other) != 0, PT_CONFIG,
                        "%s: two corpora are called %s", cited, name);
    }
    return PT_OK;
}

pt_status_t pt_config_check_lists(const pt_config_t *config)
{
    int count = pt_config_items(config, ID(data, validation));

    PT_TRY(list_check_items(config, ID(data, path)));
    PT_TRY(list_check_items(config, ID(data, validation)));
    for (int i = 0; i < count; i++)
        PT_TRY(list_check_validation(config, i));
    PT_TRY(list_check_masks(config, ID(data, validation_mask), ID(data, validation)));
    if (config->data.path[0])
        PT_TRY(list_check_masks(config, ID(data, mask), ID(data, path)));
    return PT_OK;
}
