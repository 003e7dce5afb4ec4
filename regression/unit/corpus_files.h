/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of token files begin with: making files byte by byte, and the
 * configuration. */
#ifndef PT_REGRESSION_CORPUS_FILES_H
#define PT_REGRESSION_CORPUS_FILES_H

#include "penta/data/data.h"
#include "regression/tap.h"

#include <string.h>

enum { ROOM = 1 << 14, LONGEST = 16, VOCAB = 200000 };

static pt_config_t config;

/* What is written. */
typedef struct image {
    uint8_t bytes[8 * ROOM];
    int64_t count;
} image_t;
static image_t idx, bin;

__attribute__((unused)) static void put(image_t *image, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        image->bytes[image->count++] = (uint8_t)(value >> 8 * i);
}

static void write_bytes(const char *name, const uint8_t *bytes, int64_t count)
{
    FILE *file = fopen(name, "wb");

    if (!file || fwrite(bytes, 1, (size_t)count, file) != (size_t)count ||
        fclose(file) != 0) {
        tap_ok(0, "cannot write %s", name);
        exit(1);
    }
}

__attribute__((unused)) static void set_config(const char *path, int format,
                                               int64_t sequence, bool mask)
{
    pt_config_defaults(&config);
    snprintf(config.data.path, sizeof config.data.path, "%s", path);
    config.data.split = (pt_value_split_t){0.7, 0.3};
    config.data.format = format;
    config.data.document_mask = mask;
    config.train.sequence = sequence;
}

__attribute__((unused)) static void write_pair(const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "%s.idx", name);
    write_bytes(path, idx.bytes, idx.count);
    snprintf(path, sizeof path, "%s.bin", name);
    write_bytes(path, bin.bytes, bin.count);
}

#endif
