/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cmd/inspect.h"

#include "io/elements.h"
#include "penta/base/alloc.h"
#include "penta/io/rundir.h"
#include "penta/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- verify ---- */

static int64_t inspect_count_not_finite(pt_dtype_t dtype, const void *data, int64_t n)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        count += !isfinite(pt_float_get(dtype, data, i));
    return count;
}

static pt_status_t scan_tensor(pt_checkpoint_reader_t *reader, int index, void *piece,
                               uint64_t *digest, int64_t *not_finite)
{
    const pt_checkpoint_tensor_t *tensor = pt_checkpoint_tensor(reader, index);
    pt_hyperslab_t whole = pt_hyperslab_whole(tensor->ndim, tensor->shape);
    pt_hyperslab_walk_t walk =
        pt_hyperslab_walk(&whole, pt_dtype_size(tensor->dtype), PT_INSPECT_PIECE_BYTES);

    *digest = 0;
    *not_finite = 0;
    while (pt_hyperslab_next(&walk)) {
        PT_TRY(
            pt_checkpoint_read(reader, index, tensor->dtype, &walk.piece, true, piece));
        *digest += pt_elements_digest(tensor, &walk.piece, piece);
        *not_finite += inspect_count_not_finite(tensor->dtype, piece,
                                                pt_hyperslab_elements(&walk.piece));
    }
    return PT_OK;
}

typedef struct findings {
    json_t *damaged, *not_finite;
    pt_text_t names; /* names of damaged tensors */
} findings_t;

static pt_status_t inspect_verify_tensor(pt_checkpoint_reader_t *reader, int index,
                                         void *piece, findings_t *findings)
{
    char name[128];
    uint64_t digest;
    int64_t not_finite;

    PT_TRY(scan_tensor(reader, index, piece, &digest, &not_finite));
    pt_inspect_name(pt_checkpoint_tensor(reader, index), name);
    if (digest != pt_checkpoint_tensor_digest(reader, index)) {
        json_array_append_new(findings->damaged, pt_json_text(name));
        pt_text_add(&findings->names, "%s%s", findings->names.length ? ", " : "", name);
    }
    if (not_finite > 0) {
        json_t *row = json_object();
        json_object_set_new(row, "name", pt_json_text(name));
        json_object_set_new(row, "elements", json_integer(not_finite));
        json_array_append_new(findings->not_finite, row);
    }
    return PT_OK;
}

pt_status_t pt_inspect_verify(pt_checkpoint_reader_t *reader, json_t *out)
{
    char names[1024];
    findings_t findings = {json_array(), json_array(),
                           pt_text_init(names, sizeof names)};
    pt_status_t status = PT_OK;
    int count = pt_checkpoint_tensors(reader);
    void *piece;

    json_object_set_new(out, "tensors", json_integer(count));
    json_object_set_new(out, "digest",
                        pt_inspect_hex(pt_checkpoint_header(reader)->digest));
    json_object_set_new(out, "damaged", findings.damaged);
    json_object_set_new(out, "not_finite", findings.not_finite);
    PT_TRY(pt_alloc("piece of a tensor", PT_INSPECT_PIECE_BYTES, 1, &piece));
    for (int i = 0; i < count && status == PT_OK; i++)
        status = inspect_verify_tensor(reader, i, piece, &findings);
    pt_free(piece);
    PT_TRY(status);
    json_object_set_new(out, "intact", json_boolean(findings.names.length == 0));
    PT_CHECK_COMMON(findings.names.length == 0, PT_DAMAGED,
                    "%s: elements differ from what was written: %s%s",
                    json_string_value(json_object_get(out, "file")), names,
                    findings.names.truncated ? "…" : "");
    return PT_OK;
}
