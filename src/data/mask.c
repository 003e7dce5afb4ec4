/* SPDX-License-Identifier: Apache-2.0 */
/* Loss masks: for each file of the corpus a file with a byte for each of its tokens. */
#include "src/data/private.h"

#include "penta/base/alloc.h"

#include <string.h>

/* path: NULL: every token counts */
static pt_status_t mask_open(const pt_corpus_t *corpus, const char *option,
                             const char *path, int f)
{
    pt_corpus_file_t *mask = &corpus->masks[f];
    const pt_corpus_file_t *file = &corpus->files[f];

    mask->descriptor = -1;
    if (!path)
        return PT_OK;
    PT_TRY(pt_corpus_open_file(option, path, mask));
    PT_CHECK(mask->bytes == file->tokens, PT_CONFIG,
             "%s: %s has %lld bytes, but %s has %lld tokens: a mask has one byte for "
             "each token",
             option, path, (long long)mask->bytes, file->path, (long long)file->tokens);
    return PT_OK;
}

pt_status_t pt_corpus_open_masks(pt_corpus_t *corpus, const pt_config_t *config,
                                 pt_option_id_t id, int first)
{
    char option[PT_CORPUS_OPTION], path[PT_CONFIG_TEXT];
    int count = pt_config_items(config, id);
    bool any = false;

    PT_REQUIRE(count == 0 || first + corpus->file_count <= count);
    for (int f = 0; f < corpus->file_count && count > 0; f++)
        any = any || pt_config_mask(config, id, first + f, path);
    if (!any)
        return PT_OK;
    pt_config_origin(config, id, option, sizeof option);
    PT_TRY(PT_NEW("masks of the corpus", corpus->file_count, &corpus->masks));
    for (int f = 0; f < corpus->file_count; f++) {
        corpus->mask_count++;
        PT_TRY(
            mask_open(corpus, option, pt_config_mask(config, id, first + f, path), f));
    }
    return PT_OK;
}

static pt_status_t mask_read(const pt_corpus_file_t *mask, int64_t first, int64_t count,
                             uint8_t *out)
{
    if (!mask->path) {
        memset(out, 1, (size_t)count);
        return PT_OK;
    }
    PT_TRY(pt_corpus_read_file(mask, first, count, out));
    for (int64_t i = 0; i < count; i++)
        PT_CHECK(out[i] <= 1, PT_CONFIG,
                 "%s: byte number %lld is %d, but a mask holds only 1, where the "
                 "prediction of a token counts, and 0",
                 mask->path, (long long)(first + i), out[i]);
    return PT_OK;
}

pt_status_t pt_corpus_read_masks(const pt_corpus_t *corpus, int64_t first,
                                 int64_t count, uint8_t *out)
{
    if (corpus->mask_count == 0) {
        memset(out, 1, (size_t)count);
        return PT_OK;
    }
    for (int f = pt_corpus_file_of(corpus, first); count > 0; f++) {
        const pt_corpus_file_t *file = &corpus->files[f];
        int64_t offset = first - file->start, part = file->tokens - offset;

        if (part > count)
            part = count;
        PT_TRY(mask_read(&corpus->masks[f], offset, part, out));
        first += part;
        count -= part;
        out += part;
    }
    return PT_OK;
}
