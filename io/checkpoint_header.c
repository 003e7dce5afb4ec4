/* SPDX-License-Identifier: Apache-2.0 */
#include "io/checkpoint_file.h"
#include "penta/base/rng.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct field {
    pt_h5_attribute_t attribute;
    size_t offset;
} field_t;

#define FIELD(name_, kind_)                                                            \
    {                                                                                  \
        {#name_, PT_H5_##kind_, sizeof((pt_checkpoint_header_t *)0)->name_},           \
            offsetof(pt_checkpoint_header_t, name_)                                    \
    }

/* Integers are counts; a negative one is a defect. */
static const field_t fields[] = {
    FIELD(step, INT64),
    FIELD(samples, INT64),
    FIELD(tokens, INT64),
    FIELD(adam_t, INT64),
    FIELD(data_tokens, INT64),
    FIELD(data_hash, UINT64),
    FIELD(decay_steps, INT64),
    FIELD(loss, DOUBLE),
    FIELD(loss_scale, DOUBLE),
    FIELD(loss_scale_good_steps, INT64),
    FIELD(loss_scale_hysteresis, INT64),
    FIELD(digest, UINT64),
    FIELD(precision, STRING),
    FIELD(build, STRING),
    FIELD(layout, STRING),
};

static const pt_h5_attribute_t format_attribute = {"format", PT_H5_INT64,
                                                   sizeof(int64_t)};
static const pt_h5_attribute_t digest_attribute = {"digest", PT_H5_UINT64,
                                                   sizeof(uint64_t)};

const char *pt_checkpoint_tensor_path(const pt_checkpoint_tensor_t *tensor,
                                      char buffer[PT_CHECKPOINT_PATH])
{
    snprintf(buffer, PT_CHECKPOINT_PATH, "/%s/%s", tensor->group, tensor->name);
    return buffer;
}

bool pt_checkpoint_is_weight(const pt_checkpoint_tensor_t *tensor)
{
    return strcmp(tensor->group, PT_CHECKPOINT_WEIGHTS) == 0;
}

uint64_t pt_checkpoint_tensor_id(const pt_checkpoint_tensor_t *tensor)
{
    char full[PT_CHECKPOINT_PATH];

    if (pt_checkpoint_is_weight(tensor))
        return pt_name_id(tensor->name);
    snprintf(full, sizeof full, "%s/%s", tensor->group, tensor->name);
    return pt_name_id(full);
}

pt_status_t pt_checkpoint_write_header(hid_t file, const char *path,
                                       const pt_checkpoint_header_t *header)
{
    pt_h5_place_t root = {file, path, "the file"};
    int64_t format = PT_CHECKPOINT_FORMAT;

    PT_TRY(pt_h5_write_attribute(root, format_attribute, &format));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        PT_TRY(pt_h5_write_attribute(root, fields[i].attribute,
                                     (const char *)header + fields[i].offset));
    return PT_OK;
}

pt_status_t pt_checkpoint_read_header(hid_t file, const char *path,
                                      pt_checkpoint_header_t *out)
{
    pt_h5_place_t root = {file, path, "the file"};
    int64_t format, count;

    memset(out, 0, sizeof *out);
    PT_CHECK(H5Aexists(file, format_attribute.name) > 0, PT_DAMAGED,
             "%s: a HDF5 file, but not a checkpoint of penta (no attribute format)",
             path);
    PT_TRY(pt_h5_read_attribute(root, format_attribute, &format));
    PT_CHECK(format == PT_CHECKPOINT_FORMAT, PT_IO,
             "%s: format %lld; this version reads format %d: use the version that "
             "wrote it, or move it away",
             path, (long long)format, PT_CHECKPOINT_FORMAT);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char *value = (char *)out + fields[i].offset;
        PT_TRY(pt_h5_read_attribute(root, fields[i].attribute, value));
        if (fields[i].attribute.kind != PT_H5_INT64)
            continue;
        memcpy(&count, value, sizeof count);
        PT_CHECK(count >= 0, PT_DAMAGED, "%s: attribute %s is negative: %lld", path,
                 fields[i].attribute.name, (long long)count);
    }
    return PT_OK;
}

pt_status_t pt_checkpoint_write_digest(hid_t dataset, const char *path,
                                       const char *name, uint64_t digest)
{
    return pt_h5_write_attribute((pt_h5_place_t){dataset, path, name}, digest_attribute,
                                 &digest);
}

pt_status_t pt_checkpoint_read_digest(hid_t dataset, const char *path, const char *name,
                                      uint64_t *out)
{
    return pt_h5_read_attribute((pt_h5_place_t){dataset, path, name}, digest_attribute,
                                out);
}
